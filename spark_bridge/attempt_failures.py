"""What an attempt has failed of, as it is told: where, in whose code, of what in Spark, and what is lost with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.actors.errors import RestoreError
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.failures import serialized
from flykka.spark_bridge.spark_reasons import spark_reason

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.spark_bridge.services import Services
    from flykka.spark_bridge.stages.chain import Chain


class AttemptFailures:
    """Tells the failures of one attempt. Safe to use from any thread."""

    def __init__(self, services: Services, chain: Chain) -> None:
        self._services = services
        self._chain = chain

    def of_attempt(self, what: str, raised: BaseException) -> SerializedThrowable:
        """Why the attempt fails. Where its session was stopped another one is begun, which may take a second."""
        registry, head = self._services.registry, self._chain.head
        # What cannot be read is the matter of the source; where else it went wrong, only Spark's text may tell.
        unread = isinstance(raised, SourceError)
        uids = [head.uid] if unread else self._chain.transforming
        where = f"operator {registry.describe(head.uid)}" if unread else what
        lines = dict.fromkeys(line for uid in uids if (line := registry.written(uid)) is not None)
        cause = serialized(where, raised, tuple(lines))
        if isinstance(raised, RestoreError):
            # A restart would read the same checkpoint.
            cause = replace(cause, suppress_restarts=True)
        return self._services.sessions.explain(self._services.session, self._naming_what_is_lost(cause))

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
