"""Explains the checkpoints of a coordinator when it is asked why a job does not go on."""

from __future__ import annotations

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, PendingPhase
from flykka.actors.machines.checkpoint.statistics import CheckpointStatsTracker
from flykka.messages.monitoring.explanation import CheckpointsExplained, PendingExplained
from flykka.messages.wire.ids import JobId

_PHASES = {
    PendingPhase.COORDINATORS: "operator coordinators",
    PendingPhase.MASTER_HOOKS: "master hooks",
    PendingPhase.TASKS: "tasks",
    PendingPhase.METADATA: "metadata",
}


def explain_checkpoints(
    job_id: JobId, pending: dict[int, PendingCheckpoint], stats: CheckpointStatsTracker, now: int
) -> CheckpointsExplained:
    """The pending checkpoints, and what became of the last ones, at `now`."""
    completed, failed = stats.latest_completed, stats.latest_failed
    return CheckpointsExplained(
        job_id=job_id,
        now_ms=now,
        pending=tuple(_pending(each) for each in pending.values()),
        completed=stats.counts.completed,
        failed=stats.counts.failed,
        last_completed_id=completed.checkpoint_id if completed else None,
        last_completed_ms=completed.trigger_ms + completed.duration_ms if completed else None,
        last_failed_id=failed.checkpoint_id if failed else None,
        last_failure=str(failed.reason) if failed and failed.reason else None,
    )


def _pending(pending: PendingCheckpoint) -> PendingExplained:
    return PendingExplained(
        checkpoint_id=pending.checkpoint_id,
        since_ms=pending.timestamp_ms,
        phase=_PHASES[pending.phase],
        awaited=tuple(sorted(pending.awaited)),
        acknowledged=len(pending.acknowledged),
        is_savepoint=pending.properties.is_savepoint,
    )
