"""Explains the checkpoints of a coordinator when it is asked why a job does not go on."""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, PendingPhase
from flykka.messages.monitoring.explanation import CheckpointsExplained, PendingExplained
from flykka.messages.wire.ids import JobId

_PHASES = {
    PendingPhase.COORDINATORS: "operator coordinators",
    PendingPhase.MASTER_HOOKS: "master hooks",
    PendingPhase.TASKS: "tasks",
    PendingPhase.METADATA: "metadata",
}


def explain_checkpoints(job_id: JobId, pending: Iterable[PendingCheckpoint], now: int) -> CheckpointsExplained:
    """The pending checkpoints at `now`."""
    return CheckpointsExplained(job_id=job_id, now_ms=now, pending=tuple(_pending(each) for each in pending))


def _pending(pending: PendingCheckpoint) -> PendingExplained:
    return PendingExplained(
        checkpoint_id=pending.checkpoint_id,
        since_ms=pending.timestamp_ms,
        phase=_PHASES[pending.phase],
        awaited=tuple(sorted(pending.awaited)),
        acknowledged=len(pending.acknowledged),
        is_savepoint=pending.properties.is_savepoint,
    )
