"""Declines of checkpoints by a task."""

from __future__ import annotations

from flykka.actors.machines.effects import Role, Tell
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, DeclineCheckpoint, TriggerCheckpoint
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable


def decline(
    descriptor: TaskDeploymentDescriptor,
    checkpoint_id: int,
    reason: CheckpointDeclineReason,
    cause: SerializedThrowable | None = None,
) -> Tell[Role]:
    """Tell the coordinator, through the JobMaster, why this attempt gives the checkpoint up."""
    return Tell(
        to=Role.JOB_MASTER,
        message=DeclineCheckpoint(
            job_id=descriptor.job_id,
            attempt=descriptor.attempt,
            checkpoint_id=checkpoint_id,
            reason=reason,
            cause=cause,
        ),
    )


def unknown_attempt(trigger: TriggerCheckpoint) -> DeclineCheckpoint:
    """Decline a checkpoint that was triggered at a TaskManager which does not run the attempt."""
    return DeclineCheckpoint(
        job_id=trigger.job_id,
        attempt=trigger.attempt,
        checkpoint_id=trigger.checkpoint_id,
        reason=CheckpointDeclineReason.TASK_CHECKPOINT_FAILURE,
    )
