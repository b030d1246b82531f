"""Ends of pending checkpoints: completed, with those before subsumed, or given up.

Mirrors completePendingCheckpoint and abortPendingCheckpoint of Flink's CheckpointCoordinator. Whatever the end is, it
is told to the tasks, to the requester of the checkpoint, and to listeners, once.
"""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.machines.checkpoint.coordinator_state import CoordinatorState
from flykka.actors.machines.checkpoint.effects import CoordinatorEffect
from flykka.actors.machines.checkpoint.pending import PendingCheckpoint
from flykka.actors.machines.checkpoint.trigger import CheckpointTrigger, savepoint_failed
from flykka.actors.machines.effects import CancelTimer, Ignore
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CheckpointFailure,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
)
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import CheckpointFailuresExceeded, SavepointCompleted
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted

Effects = Iterator[CoordinatorEffect]

_GIVEN_UP = frozenset(
    {
        CheckpointDeclineReason.COORDINATOR_SHUTDOWN,
        CheckpointDeclineReason.COORDINATOR_SUSPEND,
        CheckpointDeclineReason.JOB_FAILOVER_REGION,
        CheckpointDeclineReason.SUBSUMED,
    }
)
"""The reasons for which the coordinator gives checkpoints up although nothing of them has failed."""


class CheckpointCompletion:
    """Ends checkpoints."""

    def __init__(self, state: CoordinatorState, trigger: CheckpointTrigger) -> None:
        self._state = state
        self._trigger = trigger
        self._job_id = state.job.job_id

    def complete(self, pending: PendingCheckpoint, checkpoint: CompletedCheckpoint, now: int) -> Effects:
        """Its metadata is durable, and it is in the store: nothing can go wrong any more."""
        checkpoint_id, properties = checkpoint.checkpoint_id, pending.properties
        if properties.can_be_subsumed and checkpoint_id < self._state.completed.latest_id:
            # It came into the store behind one that subsumes it.
            yield from self.abort(pending, CheckpointFailure(reason=CheckpointDeclineReason.SUBSUMED), now)
            yield from self._state.completed.dispose(retained=(checkpoint_id,), checkpoints=(checkpoint.path,))
            yield from self._trigger.resume(now)
            return
        self._state.pendings.remove(pending)
        yield CancelTimer(key=pending.timer)
        self._state.failures.succeed(checkpoint_id)
        # A savepoint is the user's: who goes on from it commits what it holds, and the job commits with its next one.
        is_retained = self._state.retains(properties)
        if is_retained:
            for attempt in self._state.tasks.alive(pending.plan.to_commit_to):
                yield NotifyCheckpointComplete(
                    job_id=self._job_id,
                    attempt=attempt,
                    checkpoint_id=checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                )
        yield CheckpointCompleted(
            job_id=self._job_id,
            checkpoint_id=checkpoint_id,
            duration_ms=now - pending.timestamp_ms,
            size_bytes=pending.size_bytes,
            incremental_bytes=pending.incremental_bytes,
            path=checkpoint.path,
            timestamp_ms=now,
            is_retained=is_retained,
        )
        if pending.request_id is not None and not self._is_tried_again(pending):
            yield SavepointCompleted(
                job_id=self._job_id,
                request_id=pending.request_id,
                checkpoint_id=checkpoint_id,
                path=checkpoint.path,
            )
        if is_retained:
            needed_from = self._state.pendings.needed_from(checkpoint_id)
            yield from self._state.completed.retain(checkpoint, needed_from=needed_from)
            yield from self._subsume(checkpoint_id, now)
        yield from self._trigger.on_completed(checkpoint_id, now)
        yield from self._trigger.resume(now)

    def abort_all(self, reason: CheckpointDeclineReason, now: int) -> Effects:
        """Every pending checkpoint is given up."""
        for pending in self._state.pendings:
            yield from self.abort(pending, CheckpointFailure(reason=reason), now)

    def abort(
        self, pending: PendingCheckpoint, failure: CheckpointFailure, now: int, *, by_task: bool = False
    ) -> Effects:
        """It is given up, because a task said so (`by_task`) or for a reason of the coordinator's own.

        One that is on its way into the store is not: whether it gets there is decided in the store alone, and the next
        coordinator goes by that.
        """
        if self._state.completed.is_being_added(pending.checkpoint_id):
            yield Ignore(reason=f"checkpoint {pending.checkpoint_id} is being added to the store")
            return
        # A task may have been overtaken by the barrier of a newer one, whatever this one is; nobody else overtakes it.
        is_overtaken = failure.reason is CheckpointDeclineReason.SUBSUMED and not by_task
        assert pending.properties.can_be_subsumed or not is_overtaken
        self._state.pendings.remove(pending)
        if not pending.has_reached_tasks:
            self._trigger.give_way()
        yield CancelTimer(key=pending.timer)
        yield from self._notify_aborted(pending)
        is_given_up = failure.reason in _GIVEN_UP and not by_task
        yield CheckpointAborted(
            job_id=self._job_id,
            checkpoint_id=pending.checkpoint_id,
            reason=failure.reason,
            timestamp_ms=now,
            failure=None if is_given_up else self._state.failures.repeated(failure, now),
        )
        yield from self._discard(pending)
        fatal = self._why_fatal(pending, failure.reason, by_task=by_task)
        if self._trigger.final.begun == pending.checkpoint_id:
            yield from self._trigger.on_final_aborted(pending.checkpoint_id, failure)
        elif pending.request_id is not None and not self._is_tried_again(pending):
            yield savepoint_failed(self._job_id, pending.request_id, failure)
        if fatal is not None:
            cause = failure.error(f"{fatal} {pending.checkpoint_id}")
            yield CheckpointFailuresExceeded(job_id=self._job_id, cause=cause)

    def discard_unwritten(self, target_location: str | None) -> Effects:
        """The metadata of a checkpoint that was given up before could not be written."""
        yield from self._state.completed.dispose(checkpoints=_folder(target_location))

    def _subsume(self, completed_id: int, now: int) -> Effects:
        for pending in self._state.pendings:
            if pending.checkpoint_id < completed_id and pending.properties.can_be_subsumed:
                yield from self.abort(pending, CheckpointFailure(reason=CheckpointDeclineReason.SUBSUMED), now)

    def _notify_aborted(self, pending: PendingCheckpoint) -> Effects:
        if not pending.has_reached_tasks:
            return
        latest = self._state.completed.latest
        for attempt in self._state.tasks.alive(task.attempt for task in pending.plan.to_wait_for):
            yield NotifyCheckpointAborted(
                job_id=self._job_id,
                attempt=attempt,
                checkpoint_id=pending.checkpoint_id,
                latest_completed_id=latest.checkpoint_id if latest else None,
                timestamp_ms=pending.timestamp_ms,
            )

    def _discard(self, pending: PendingCheckpoint) -> Effects:
        # While the metadata is being written there, the folder of a savepoint is left to the end of that.
        is_left = pending.checkpoint_id in self._state.completed.writing
        folder = () if is_left else _folder(pending.properties.options.target_location)
        yield from self._state.completed.dispose(checkpoints=folder, state=pending.exclusive_state())

    def _is_tried_again(self, pending: PendingCheckpoint) -> bool:
        """True if it was to stop attempts that are over: the stop waits for their successors, and is answered then."""
        final = self._trigger.final
        is_wanted = final.stop is not None and final.stop.request_id == pending.request_id
        return is_wanted and final.begun != pending.checkpoint_id

    def _why_fatal(self, pending: PendingCheckpoint, reason: CheckpointDeclineReason, *, by_task: bool) -> str | None:
        properties = pending.properties
        is_aborted_stop = self._trigger.final.begun == pending.checkpoint_id
        if is_aborted_stop and self._trigger.final.stop is not None:
            # The requester of the stop is told. Sources that were drained will read nothing any more.
            is_drained = properties.options.drain and pending.has_reached_tasks
            return "the job was drained, and its last checkpoint failed," if is_drained else None
        if properties.is_savepoint and not by_task:
            # Nobody is helped by a failover where a savepoint could not be written.
            return None
        exceeded = self._state.failures.fail(pending.checkpoint_id, reason)
        return None if exceeded is None else f"{exceeded}, the last one"


def _folder(target_location: str | None) -> tuple[str, ...]:
    return () if target_location is None else (target_location,)
