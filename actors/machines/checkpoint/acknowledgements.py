"""Acknowledgements of tasks: each counts once, and state that no checkpoint waits for is discarded.

Mirrors receiveAcknowledgeMessage and receiveDeclineMessage of Flink's CheckpointCoordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from flykka.actors.machines.checkpoint.completion import CheckpointCompletion
from flykka.actors.machines.checkpoint.coordinator_state import CoordinatorState
from flykka.actors.machines.checkpoint.effects import CoordinatorEffect, LateAcknowledgement
from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, TaskAcknowledgeResult
from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.state.handles import exclusive_state
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, DeclineCheckpoint
from flykka.messages.checkpointing.statistics import SubtaskCheckpointStatistics, SubtasksAcknowledged

Effects = Iterator[CoordinatorEffect]


class Acknowledgements:
    """Collects what the tasks answer."""

    def __init__(self, state: CoordinatorState, completion: CheckpointCompletion) -> None:
        self._state = state
        self._completion = completion

    def acknowledge(self, event: AcknowledgeCheckpoint, now: int) -> Effects:
        """A task has taken its snapshot."""
        checkpoint_id, attempt = event.checkpoint_id, event.attempt
        match self._state.pendings.expects(checkpoint_id, attempt):
            case TaskAcknowledgeResult.SUCCESS:
                pending = self._state.pendings.get(checkpoint_id)
                assert pending is not None
                yield from self._collect(pending, event, now)
            case TaskAcknowledgeResult.DUPLICATE:
                yield Ignore(reason=f"{attempt} has acknowledged checkpoint {checkpoint_id} already")
            case TaskAcknowledgeResult.UNKNOWN if checkpoint_id in self._state.completed:
                yield Ignore(reason=f"checkpoint {checkpoint_id} is complete")
            case TaskAcknowledgeResult.UNKNOWN:
                yield Ignore(reason=f"checkpoint {checkpoint_id} does not wait for {attempt}")
                yield from self.discard(event)
            case TaskAcknowledgeResult.DISCARDED:
                task = self._state.tasks.task(attempt)
                who = task.where if task is not None else f"{attempt}, which has ended"
                yield LateAcknowledgement(reason=f"checkpoint {checkpoint_id} had ended when {who} acknowledged it")
                yield from self._measure(event, now)
                yield from self.discard(event)
            case unreachable:
                assert_never(unreachable)

    def decline(self, event: DeclineCheckpoint, now: int) -> Effects:
        """A task cannot take part."""
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} is not pending")
            return
        failure = self._state.tasks.failure_of(event.attempt, event.reason, event.cause)
        yield from self._completion.abort(pending, failure, now, by_task=True)

    def finish(self, pending: PendingCheckpoint, now: int) -> Effects:
        """Write the metadata where no acknowledgement is missing."""
        if pending.is_fully_acknowledged:
            yield from self._state.completed.write(
                pending.finalize(now),
                pending.properties.options.target_location,
                is_retained=self._state.retains(pending.properties),
            )

    def _collect(self, pending: PendingCheckpoint, event: AcknowledgeCheckpoint, now: int) -> Effects:
        state = event.state
        if not pending.properties.is_savepoint:
            state, redundant = self._state.completed.acknowledge(event.checkpoint_id, state)
            yield from self._state.completed.dispose(state=redundant)
        yield from self._measure(event, now)
        pending.measure(event.metrics)
        pending.note_in_flight(event.events)
        pending.acknowledge(event.attempt, state)
        yield from self.finish(pending, now)

    def _measure(self, event: AcknowledgeCheckpoint, now: int) -> Effects:
        task = self._state.tasks.task(event.attempt)
        if task is not None:
            measured = SubtaskCheckpointStatistics(
                vertex_id=task.vertex_id, subtask=task.subtask, ack_ms=now, metrics=event.metrics
            )
            yield SubtasksAcknowledged(
                job_id=self._state.job.job_id, checkpoint_id=event.checkpoint_id, subtasks=(measured,)
            )

    def discard(self, event: AcknowledgeCheckpoint) -> Effects:
        """Delete the state of an acknowledgement that no checkpoint waits for."""
        exclusive = self._state.pendings.discard(event.checkpoint_id, exclusive_state(event.state))
        lives = event.attempt in self._state.tasks
        yield from self._state.completed.discard_late(
            event.checkpoint_id,
            event.state,
            exclusive,
            attempt_lives=lives,
            needed_from=self._state.pendings.needed_from(self._state.completed.latest_id),
        )
