"""From the drawn id to the tasks: a checkpoint is planned; operator coordinators and master hooks have their turn.

Mirrors startTriggeringCheckpoint of Flink's CheckpointCoordinator, behind its second check. Until the tasks have heard
of it, no other checkpoint is on its way to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.machines.checkpoint import effects
from flykka.actors.machines.checkpoint.acknowledgements import Acknowledgements
from flykka.actors.machines.checkpoint.completion import CheckpointCompletion
from flykka.actors.machines.checkpoint.coordinator_state import CoordinatorState
from flykka.actors.machines.checkpoint.effects import CoordinatorEffect
from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, PendingPhase
from flykka.actors.machines.checkpoint.properties import with_alignment
from flykka.actors.machines.checkpoint.request_decider import CheckpointTriggerRequest
from flykka.actors.machines.checkpoint.trigger import CheckpointTrigger
from flykka.actors.machines.effects import Ignore, StartTimer
from flykka.messages.checkpointing.checkpoint import (
    CheckpointFailure,
    OperatorCoordinatorsSnapshotted,
    SnapshotOperatorCoordinators,
    TriggerCheckpoint,
)
from flykka.messages.checkpointing.statistics import CheckpointTriggered
from flykka.messages.control.checkpoint_coordination import CheckpointTimedOut, MasterHookFailed, MasterHooksTriggered

Effects = Iterator[CoordinatorEffect]


class CheckpointInitialization:
    """Begins checkpoints."""

    def __init__(
        self,
        state: CoordinatorState,
        trigger: CheckpointTrigger,
        completion: CheckpointCompletion,
        acknowledgements: Acknowledgements,
        *,
        operator_coordinators: bool,
        master_hooks: bool,
    ) -> None:
        self._state = state
        self._trigger = trigger
        self._completion = completion
        self._acknowledgements = acknowledgements
        self._operator_coordinators = operator_coordinators
        self._master_hooks = master_hooks

    def initialize(self, checkpoint_id: int, request: CheckpointTriggerRequest, now: int) -> Effects:
        """A request has its id, and nothing is in its way."""
        properties = with_alignment(request.properties, self._state.settings)
        pending = PendingCheckpoint(
            job=self._state.job,
            checkpoint_id=checkpoint_id,
            timestamp_ms=now,
            properties=properties,
            plan=self._state.tasks.calculate(),
            built_on=self._state.completed.latest_id,
            request_id=request.request_id,
        )
        self._state.pendings.add(pending)
        self._trigger.begun()
        if properties.is_final:
            self._trigger.final.note_begun(checkpoint_id)
        yield CheckpointTriggered(
            job_id=self._state.job.job_id,
            checkpoint_id=checkpoint_id,
            timestamp_ms=now,
            num_subtasks=len(pending.plan.to_wait_for),
            is_savepoint=properties.is_savepoint,
        )
        timeout_ms = self._state.settings.timeout_ms
        timed_out = CheckpointTimedOut(checkpoint_id=checkpoint_id)
        yield StartTimer(key=pending.timer, delay_ms=timeout_ms, message=timed_out)
        if self._operator_coordinators:
            yield SnapshotOperatorCoordinators(job_id=self._state.job.job_id, checkpoint_id=checkpoint_id)
        else:
            pending.set_coordinators(())
            yield from self._trigger_hooks(pending, now)

    def on_coordinators_snapshotted(self, event: OperatorCoordinatorsSnapshotted, now: int) -> Effects:
        """The JobMaster has the state of its operator coordinators."""
        pending = self._state.pendings.get(event.checkpoint_id)
        if event.job_id != self._state.job.job_id or pending is None or pending.phase is not PendingPhase.COORDINATORS:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} does not wait for operator coordinators")
            return
        pending.set_coordinators(event.states)
        yield from self._trigger_hooks(pending, now)

    def on_master_hooks(self, event: MasterHooksTriggered | MasterHookFailed, now: int) -> Effects:
        """The master hooks have run."""
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None or pending.phase is not PendingPhase.MASTER_HOOKS:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} does not wait for master hooks")
            return
        match event:
            case MasterHooksTriggered(states=states):
                pending.set_master_states(states)
                yield from self._trigger_tasks(pending, now)
            case MasterHookFailed(cause=cause, reason=reason):
                yield from self._completion.abort(pending, CheckpointFailure(reason=reason, cause=cause), now)
                yield from self._trigger.resume(now)

    def _trigger_hooks(self, pending: PendingCheckpoint, now: int) -> Effects:
        if self._master_hooks:
            yield effects.TriggerMasterHooks(checkpoint_id=pending.checkpoint_id, timestamp_ms=pending.timestamp_ms)
        else:
            pending.set_master_states(())
            yield from self._trigger_tasks(pending, now)

    def _trigger_tasks(self, pending: PendingCheckpoint, now: int) -> Effects:
        for attempt in pending.plan.to_trigger:
            yield TriggerCheckpoint(
                job_id=self._state.job.job_id,
                attempt=attempt,
                checkpoint_id=pending.checkpoint_id,
                timestamp_ms=pending.timestamp_ms,
                options=pending.properties.options,
            )
        self._trigger.give_way()
        yield from self._acknowledgements.finish(pending, now)
        yield from self._trigger.resume(now)
