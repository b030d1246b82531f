"""Declines of checkpoints by a task."""

from __future__ import annotations

from flykka.actors.machines.task.effects import TellJobMaster
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, DeclineCheckpoint, TriggerCheckpoint
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable


def decline(
    descriptor: TaskDeploymentDescriptor,
    checkpoint_id: int,
    reason: CheckpointDeclineReason,
    cause: SerializedThrowable | None = None,
) -> TellJobMaster:
    """Tell the coordinator, through the JobMaster, why this attempt gives the checkpoint up."""
    return TellJobMaster(
        message=DeclineCheckpoint(
            job_id=descriptor.job_id,
            attempt=descriptor.attempt,
            checkpoint_id=checkpoint_id,
            reason=reason,
            cause=cause,
        )
    )


def not_ready(trigger: TriggerCheckpoint) -> DeclineCheckpoint:
    """There is no such attempt here, or not yet."""
    return DeclineCheckpoint(
        job_id=trigger.job_id,
        attempt=trigger.attempt,
        checkpoint_id=trigger.checkpoint_id,
        reason=CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
    )
