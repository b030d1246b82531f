"""Events of checkpoints that make the coordinator raise: each costs its checkpoint, and the job goes on.

Flink logs such an error and continues as well. Not here: errors of user code and of storage, which come as events.
"""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.errors import described
from flykka.actors.machines.checkpoint.acknowledgements import Acknowledgements
from flykka.actors.machines.checkpoint.completion import CheckpointCompletion
from flykka.actors.machines.checkpoint.coordinator_state import CoordinatorState
from flykka.actors.machines.checkpoint.effects import CoordinatorEffect, EventFailed
from flykka.actors.machines.checkpoint.events import CheckpointIdDrawn, TriggerRequested
from flykka.actors.machines.checkpoint.trigger import CheckpointTrigger
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointFailure,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointIdsNotDrawn,
    CheckpointTimedOut,
    FinalCheckpointRequest,
    FinalCheckpointRetryDue,
    MasterHookFailed,
    MasterHooksTriggered,
    PeriodicTriggerDue,
    StopCheckpointRequest,
)

Effects = Iterator[CoordinatorEffect]

EventOfCheckpoint = (
    AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointTimedOut
    | OperatorCoordinatorsSnapshotted
    | MasterHooksTriggered
    | MasterHookFailed
    | TriggerRequested
    | CheckpointIdDrawn
    | CheckpointIdsNotDrawn
    | PeriodicTriggerDue
    | FinalCheckpointRequest
    | FinalCheckpointRetryDue
    | StopCheckpointRequest
)
"""The events of one checkpoint: when one raises, the checkpoint is given up. After others the coordinator cannot go on:
what the store holds, or the attempts of the job, would not be as this machine has them.
"""


class FailedEvents:
    """Gives up what an event that raised has touched."""

    def __init__(
        self,
        state: CoordinatorState,
        trigger: CheckpointTrigger,
        completion: CheckpointCompletion,
        acknowledgements: Acknowledgements,
    ) -> None:
        self._state = state
        self._trigger = trigger
        self._completion = completion
        self._acknowledgements = acknowledgements

    def recover(self, event: EventOfCheckpoint, error: Exception, now: int) -> Effects:
        """An event of a checkpoint has raised: it costs its checkpoint, or the request for one, and nothing else."""
        if isinstance(event, AcknowledgeCheckpoint | DeclineCheckpoint):
            failure = self._state.tasks.failure_of(event.attempt, CheckpointDeclineReason.EXCEPTION, described(error))
        else:
            reason = CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
            failure = CheckpointFailure(reason=reason, cause=described(error))
        checkpoint_id: int | None = getattr(event, "checkpoint_id", None)
        pending = None if checkpoint_id is None else self._state.pendings.get(checkpoint_id)
        cost = "a checkpoint that was to begin" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
        yield EventFailed(event=type(event).__name__, error=error, cost=cost)
        if pending is not None:
            yield from self._completion.abort(pending, failure, now)
        if isinstance(event, AcknowledgeCheckpoint):
            try:
                yield from self._acknowledgements.discard(event)
            except Exception as again:  # noqa: BLE001 - what made the event raise may make this raise too
                yield EventFailed(event=type(event).__name__, error=again, cost="state files that stay behind")
        awaited_id = isinstance(event, CheckpointIdDrawn | CheckpointIdsNotDrawn)
        yield from self._trigger.recover(failure, now, awaited_id=awaited_id)
