"""Describes an attempt's failures: the operator, the user's line, Spark's reason, and the lost partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.actors.errors import CheckpointStorageError, UnknownBatchError
from flykka.spark_bridge.diagnosis.failures import serialized
from flykka.spark_bridge.diagnosis.spark_reasons import spark_reason
from flykka.spark_bridge.diagnosis.unreadable import unreadable_file, unreadable_path
from flykka.spark_bridge.errors import SourceError, SparkBridgeError
from flykka.spark_bridge.operators.source import SourceCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.spark_bridge.attempt.services import JobServices
    from flykka.spark_bridge.diagnosis.origins import Origins
    from flykka.spark_bridge.errors import UserLine
    from flykka.spark_bridge.operators.bound_chain import BoundChain


class AttemptFailures:
    """Thread-safe."""

    def __init__(self, chain: BoundChain, origins: Origins, services: JobServices) -> None:
        self._chain = chain
        self._origins = origins
        self._registry = services.registry
        self._store = services.store
        self._session, self._sessions = services.session, services.sessions

    def of_attempt(self, what: str, raised: BaseException) -> SerializedThrowable:
        """Describe why the attempt fails. May start a new session if the session was stopped, which may take a
        second.
        """
        try:
            cause = self._located(what, raised)
        except Exception:  # noqa: BLE001 - the JVM may be gone, but the failure must be reported
            cause = serialized(what, raised, self._lines(self._chain.computing))
        return self._sessions.explain(self._session, self._with_lost_partition(cause))

    def _located(self, what: str, raised: BaseException) -> SerializedThrowable:
        """Return the failure with the operator that caused it, or with all possible operators if it is unknown."""
        head, computing = self._chain.head.uid, self._chain.computing
        if isinstance(raised, SourceError):
            return self._of_operators([head], what, raised)
        if isinstance(raised, SparkBridgeError | UnknownBatchError | CheckpointStorageError):
            return serialized(what, raised)  # The message already names its operator or file.
        path = unreadable_path(raised)
        if path is None:
            uids = self._origins.operators_named_by(raised)
            return self._of_operators(uids, what, raised) if uids else serialized(what, raised, self._lines(computing))
        # A file that no other operator reads belongs to the source, even if the source does not list it.
        is_source = isinstance(self._chain.head.code, SourceCode)
        readers = self._origins.readers_of(path) or ([head] if is_source else [])
        unreadable = unreadable_file(path, raised)
        return self._of_operators(readers, what, unreadable) if readers else serialized(what, unreadable)

    def _of_operators(self, uids: Sequence[str], what: str, raised: BaseException) -> SerializedThrowable:
        where = f"operator {self._registry.describe(uids[0])}" if len(uids) == 1 else what
        return serialized(where, raised, self._lines(uids))

    def _lines(self, uids: Sequence[str]) -> tuple[UserLine, ...]:
        lines = (self._registry.user_line(uid) for uid in uids)
        return tuple(dict.fromkeys(line for line in lines if line is not None))

    def of_snapshot(self, what: str, raised: Exception) -> SerializedThrowable | None:
        """Return why a snapshot fails; None if the attempt cannot continue because its state or session is lost."""
        cause = serialized(what, raised)
        is_lost = cause.type_name == _LOST_BATCH or cause.suppress_restarts
        return None if is_lost or self._sessions.is_lost(self._session) else cause

    def _with_lost_partition(self, cause: SerializedThrowable) -> SerializedThrowable:
        if cause.type_name != _LOST_BATCH:
            return cause
        reason = spark_reason(cause.stack_trace)
        lost = None if reason is None or reason.lost_rdd is None else reason.lost_rdd
        partition = None if lost is None else self._store.partition_of(lost)
        if partition is None:
            return cause
        return replace(cause, message=f"{cause.message} (result partition {partition})", lost_partition=partition)


_LOST_BATCH = "LostBatchError"
