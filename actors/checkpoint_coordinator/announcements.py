"""What a CheckpointCoordinator says to the tasks and to its JobMaster: the messages of its machine's effects."""

from __future__ import annotations

from typing import assert_never

from flykka.actors.machines.checkpoint import effects
from flykka.messages.checkpointing.checkpoint import (
    ForTask,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    SnapshotOperatorCoordinators,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    CheckpointingStopped,
    RestoreState,
    RestoreStateFailed,
    SavepointCompleted,
    SavepointFailed,
    StopCheckpointFailed,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message

TaskEffect = effects.TriggerTask | effects.NotifyComplete | effects.NotifyAborted
SavepointEffect = effects.ReportStopFailed | effects.ReportSavepointCompleted | effects.ReportSavepointFailed
JobMasterEffect = (
    SavepointEffect
    | effects.SnapshotCoordinators
    | effects.FailJob
    | effects.ReportCompleted
    | effects.ReportAborted
    | effects.Restore
    | effects.RestoreFailed
    | effects.ReportStopped
)


def for_task(job_id: JobId, effect: TaskEffect) -> ForTask:
    """What an attempt is told."""
    match effect:
        case effects.TriggerTask():
            return TriggerCheckpoint(
                job_id=job_id,
                attempt=effect.attempt,
                checkpoint_id=effect.checkpoint_id,
                timestamp_ms=effect.timestamp_ms,
                options=effect.options,
            )
        case effects.NotifyComplete():
            return NotifyCheckpointComplete(
                job_id=job_id,
                attempt=effect.attempt,
                checkpoint_id=effect.checkpoint_id,
                timestamp_ms=effect.timestamp_ms,
            )
        case effects.NotifyAborted():
            return NotifyCheckpointAborted(
                job_id=job_id,
                attempt=effect.attempt,
                checkpoint_id=effect.checkpoint_id,
                latest_completed_id=effect.latest_completed_id,
                timestamp_ms=effect.timestamp_ms,
            )
        case unreachable:
            assert_never(unreachable)


def for_job_master(job_id: JobId, effect: JobMasterEffect, now: int) -> Message:
    """What the JobMaster is told at `now`."""
    match effect:
        case effects.SnapshotCoordinators(checkpoint_id=checkpoint_id):
            return SnapshotOperatorCoordinators(job_id=job_id, checkpoint_id=checkpoint_id)
        case effects.FailJob(cause=cause):
            return CheckpointFailuresExceeded(job_id=job_id, cause=cause)
        case effects.ReportStopFailed() | effects.ReportSavepointCompleted() | effects.ReportSavepointFailed():
            return _of_savepoint(job_id, effect)
        case effects.ReportCompleted(checkpoint=checkpoint):
            return CheckpointCompleted(
                job_id=job_id,
                checkpoint_id=checkpoint.checkpoint_id,
                duration_ms=effect.duration_ms,
                size_bytes=effect.size_bytes,
                incremental_bytes=effect.incremental_bytes,
                path=checkpoint.path,
                timestamp_ms=now,
                is_retained=effect.is_retained,
            )
        case effects.ReportAborted(checkpoint_id=checkpoint_id, reason=reason):
            return CheckpointAborted(job_id=job_id, checkpoint_id=checkpoint_id, reason=reason, timestamp_ms=now)
        case effects.Restore(version=version, checkpoint=checkpoint):
            return RestoreState(job_id=job_id, version=version, checkpoint=checkpoint)
        case effects.RestoreFailed(version=version, cause=cause):
            return RestoreStateFailed(job_id=job_id, version=version, cause=cause)
        case effects.ReportStopped(retained=retained):
            return CheckpointingStopped(job_id=job_id, retained=retained)
        case unreachable:
            assert_never(unreachable)


def _of_savepoint(job_id: JobId, effect: SavepointEffect) -> Message:
    match effect:
        case effects.ReportStopFailed(checkpoint_id=checkpoint_id, failure=failure, request_id=request_id):
            return StopCheckpointFailed(
                job_id=job_id,
                checkpoint_id=checkpoint_id,
                reason=failure.reason,
                cause=failure.cause,
                request_id=request_id,
            )
        case effects.ReportSavepointCompleted():
            return SavepointCompleted(
                job_id=job_id,
                request_id=effect.request_id,
                checkpoint_id=effect.checkpoint_id,
                path=effect.path,
            )
        case effects.ReportSavepointFailed(request_id=request_id, failure=failure):
            return SavepointFailed(job_id=job_id, request_id=request_id, reason=failure.reason, cause=failure.cause)
        case unreachable:
            assert_never(unreachable)
