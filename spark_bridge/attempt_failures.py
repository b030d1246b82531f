"""What an attempt has failed of, as it is told: where, in whose code, of what in Spark, and what is lost with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from flykka.actors.errors import RestoreError
from flykka.spark_bridge.code import SourceCode
from flykka.spark_bridge.errors import SourceError, SparkBridgeError
from flykka.spark_bridge.failures import serialized
from flykka.spark_bridge.sources.unreadable import unreadable_file, unreadable_path
from flykka.spark_bridge.spark_reasons import spark_reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flykka.messages.failure import SerializedThrowable
    from flykka.spark_bridge.origins import Origins
    from flykka.spark_bridge.services import Services
    from flykka.spark_bridge.stages.chain import Chain


class AttemptFailures:
    """Tells the failures of one attempt. Safe to use from any thread."""

    def __init__(self, services: Services, chain: Chain, origins: Origins) -> None:
        self._services = services
        self._chain = chain
        self._origins = origins

    def of_attempt(self, what: str, raised: BaseException) -> SerializedThrowable:
        """Why the attempt fails. Where its session was stopped another one is begun, which may take a second."""
        try:
            cause = self._located(what, raised)
        except (Py4JError, OSError):
            # The JVM that would say more is gone; that there was a failure must be told.
            cause = serialized(what, raised)
        if isinstance(raised, RestoreError):
            # A restart would read the same checkpoint.
            cause = replace(cause, suppress_restarts=True)
        return self._services.sessions.explain(self._services.session, self._naming_what_is_lost(cause))

    def _located(self, what: str, raised: BaseException) -> SerializedThrowable:
        """The failure with the operator that it came from; where that is not known, with all that it may be."""
        head = self._chain.head.uid
        if isinstance(raised, SourceError):
            return self._told([head], what, raised)
        if isinstance(raised, SparkBridgeError):
            return serialized(what, raised)  # It names its operator or its file by itself.
        path = unreadable_path(raised)
        if path is None:
            return self._told(self._origins.of(raised) or self._chain.computing, what, raised)
        # A file that no other operator reads is one of the source, whatever that says of its files.
        is_source = isinstance(self._chain.head.code, SourceCode)
        candidates = self._origins.reading(path) or ([head] if is_source else self._chain.computing)
        return self._told(candidates, what, unreadable_file(path, raised))

    def _told(self, candidates: Sequence[str], what: str, raised: BaseException) -> SerializedThrowable:
        registry = self._services.registry
        lines = {line: None for uid in candidates if (line := registry.written(uid)) is not None}
        where = f"operator {registry.describe(candidates[0])}" if len(lines) == 1 else what
        return serialized(where, raised, tuple(lines))

    def of_snapshot(self, what: str, raised: Exception) -> SerializedThrowable:
        """Why a snapshot fails, of an attempt that can go on.

        Raises:
            Exception: `raised` itself, where the attempt cannot: its state is lost, or its session.
        """
        cause = serialized(what, raised)
        if cause.type_name == _LOST_BATCH or self._services.sessions.is_lost(self._services.session):
            raise raised
        return cause

    def _naming_what_is_lost(self, cause: SerializedThrowable) -> SerializedThrowable:
        if cause.type_name != _LOST_BATCH:
            return cause
        reason = spark_reason(cause.stack_trace)
        lost = None if reason is None or reason.lost_rdd is None else reason.lost_rdd
        partition = None if lost is None else self._services.store.partition_of(lost)
        if partition is None:
            return cause
        return replace(cause, message=f"{cause.message} (result partition {partition})", lost_partition=partition)


_LOST_BATCH = "LostBatchError"
