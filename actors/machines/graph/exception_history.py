"""The exception history of a job, derived from the effects of its ExecutionGraph, in order.

Makes no decisions for the job. The first failure since the last decision is a root, and failures before the next
decision are concurrent to it. A restart is complete when the first of its tasks is deployed. If an equal failure occurs
again before a checkpoint has completed, it is counted but not stored again. Follows Flink's exception history
(RootExceptionHistoryEntry, FailureHandlingResultSnapshot). The history is bounded, because a job may fail forever.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from flykka.actors.machines.graph.events import Deploy, Effect, ExecutionMoved, JobStatusMoved, RestartScheduled
from flykka.actors.machines.restart.repeated_failures import FailureSignature, failure_signature
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryEntry,
    FailureLabel,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.tasks.task import ExecutionState, TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable

MAX_ENTRIES = 16
"""The maximum number of retained failures (Flink's `web.exception-history-size`)."""

MAX_CONCURRENT = 8
"""The maximum number of failures concurrent to a root: a lost TaskManager may fail thousands of tasks."""

_ENDS = {
    JobStatus.FAILED: FailureOutcome.FAILED,
    JobStatus.CANCELED: FailureOutcome.CANCELED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFailure:
    """A failure that was not labelled yet. `number` is the number of its entry; `position` is 0 for the root, or counts
    from 1 for concurrent failures.
    """

    number: int
    position: int
    entry: ExceptionHistoryEntry


class ExceptionHistory:
    __slots__ = ("_entries", "_last_cause", "_last_number", "_new", "_numbers")

    def __init__(self) -> None:
        self._entries: OrderedDict[int, RootExceptionHistoryEntry] = OrderedDict()
        self._last_number = 0
        self._last_cause: SerializedThrowable | None = None
        self._numbers: dict[FailureSignature, int] = {}
        """The entries whose failure may occur again. A completed checkpoint clears them."""
        self._new: list[NewFailure] = []

    @property
    def entries(self) -> tuple[RootExceptionHistoryEntry, ...]:
        return tuple(self._entries.values())

    def check(self) -> None:
        assert len(self._entries) <= MAX_ENTRIES
        assert all(number == entry.number <= self._last_number for number, entry in self._entries.items())
        open_ones = [entry for entry in self._entries.values() if entry.outcome is FailureOutcome.UNDECIDED]
        assert len(open_ones) <= 1, (
            "two failures are undecided, although the second one should have been added to the first"
        )
        assert all(number in self._entries for number in self._numbers.values())

    def take_new(self) -> list[NewFailure]:
        new, self._new = self._new, []
        return new

    def label(self, number: int, position: int, labels: tuple[FailureLabel, ...]) -> RootExceptionHistoryEntry | None:
        """Label a failure. Returns `None` if there are no labels, or if the failure is no longer retained."""
        entry = self._entries.get(number)
        if entry is None or not labels:
            return None
        if position == 0:
            return self._put(replace(entry, root=replace(entry.root, failure_labels=labels)))
        labelled = replace(entry.concurrent[position - 1], failure_labels=labels)
        concurrent = (*entry.concurrent[: position - 1], labelled, *entry.concurrent[position:])
        return self._put(replace(entry, concurrent=concurrent))

    def checkpoint_completed(self) -> None:
        """Treat later failures as new, even if they equal earlier ones, because the job has made progress."""
        self._numbers.clear()

    def on_effect(self, effect: Effect, now: int) -> list[RootExceptionHistoryEntry]:
        match effect:
            case ExecutionMoved(state=ExecutionState.FAILED, failure=failure) if failure is not None:
                entry = ExceptionHistoryEntry(
                    cause=failure,
                    timestamp_ms=now,
                    task_name=effect.task_name,
                    attempt=effect.attempt,
                    task_manager=effect.task_manager_id,
                )
                return [self._failed(entry)]
            case JobStatusMoved(status=JobStatus.FAILING, cause=cause) if cause is not None:
                return self._on_failing(cause, now)
            case JobStatusMoved(status=JobStatus.CANCELLING, cause=cause):
                return self._on_cancelled(cause, now)
            case JobStatusMoved(status=status, cause=cause, why=why) if status in _ENDS:
                if status is JobStatus.CANCELED:
                    self._on_cancelled(cause, now)
                return self._end(_ENDS[status], why)
            case RestartScheduled():
                return self._on_restart(effect, now)
            case Deploy(descriptor=descriptor):
                return self._on_deploy(descriptor, now)
            case _:
                return []

    def _failed(self, failure: ExceptionHistoryEntry) -> RootExceptionHistoryEntry:
        undecided = self._undecided()
        if undecided is None:
            return self._root(failure)
        if undecided.times > 1:
            return undecided  # The concurrent failures were reported with the first occurrence.
        if len(undecided.concurrent) == MAX_CONCURRENT:
            return self._put(replace(undecided, concurrent_suppressed=undecided.concurrent_suppressed + 1))
        concurrent = (*undecided.concurrent, failure)
        self._new.append(NewFailure(number=undecided.number, position=len(concurrent), entry=failure))
        return self._put(replace(undecided, concurrent=concurrent))

    def _root(self, failure: ExceptionHistoryEntry) -> RootExceptionHistoryEntry:
        self._last_cause = failure.cause
        # The vertex name is the task name without the subtask number.
        vertex = None if failure.task_name is None else failure.task_name.rpartition(" (")[0]
        signature = failure_signature(vertex, failure.cause)
        number = None if signature is None else self._numbers.get(signature)
        if number is not None:
            earlier = self._entries[number]
            return self._put(
                replace(
                    earlier,
                    times=earlier.times + 1,
                    last_timestamp_ms=failure.timestamp_ms,
                    outcome=FailureOutcome.UNDECIDED,
                    delay_ms=0,
                    restarted_tasks=(),
                    restarted_ms=None,
                    restored_checkpoint=None,
                )
            )
        self._last_number += 1
        if signature is not None:
            self._numbers[signature] = self._last_number
        self._new.append(NewFailure(number=self._last_number, position=0, entry=failure))
        return self._put(RootExceptionHistoryEntry(number=self._last_number, root=failure))

    def _on_failing(self, cause: SerializedThrowable, now: int) -> list[RootExceptionHistoryEntry]:
        undecided = self._undecided()
        if undecided is not None and self._last_cause == cause:
            return []  # This is a task's failure, which is reported again as the job's failure.
        return [self._failed(ExceptionHistoryEntry(cause=cause, timestamp_ms=now))]

    def _on_cancelled(self, cause: SerializedThrowable | None, now: int) -> list[RootExceptionHistoryEntry]:
        """Record the cause of a cancellation. A job that waits for its restart becomes CANCELED without CANCELLING."""
        earlier_causes = (each.cause for entry in self.entries for each in (entry.root, *entry.concurrent))
        if cause is None or cause in earlier_causes:
            return []
        return [self._failed(ExceptionHistoryEntry(cause=cause, timestamp_ms=now))]

    def _on_restart(self, restart: RestartScheduled, now: int) -> list[RootExceptionHistoryEntry]:
        undecided = self._undecided()
        if undecided is None and restart.cause is not None:
            # The cause of a partial restart need not be the failure of a task.
            undecided = self._failed(ExceptionHistoryEntry(cause=restart.cause, timestamp_ms=now))
        if undecided is None:
            return []
        decided = replace(
            undecided,
            outcome=FailureOutcome.RESTARTING,
            delay_ms=restart.delay_ms,
            restarted_tasks=restart.tasks,
        )
        return [self._put(decided)]

    def _on_deploy(self, descriptor: TaskDeploymentDescriptor, now: int) -> list[RootExceptionHistoryEntry]:
        name = f"{descriptor.vertex.name} ({descriptor.subtask + 1}/{descriptor.vertex.parallelism})"
        return [
            self._put(
                replace(
                    entry,
                    outcome=FailureOutcome.RESTARTED,
                    restarted_ms=now,
                    restored_checkpoint=descriptor.restored_checkpoint_id,
                )
            )
            for entry in self.entries
            if entry.outcome is FailureOutcome.RESTARTING
            and (not entry.restarted_tasks or name in entry.restarted_tasks)
        ]

    def _end(self, outcome: FailureOutcome, why: str | None = None) -> list[RootExceptionHistoryEntry]:
        """Record the end of the job: pending restarts get this outcome. `why` applies to the undecided failure."""
        undecided = self._undecided()
        return [
            self._put(replace(entry, outcome=outcome, why_not_restarted=why if entry is undecided else None))
            for entry in self.entries
            if entry.outcome in (FailureOutcome.UNDECIDED, FailureOutcome.RESTARTING)
        ]

    def _undecided(self) -> RootExceptionHistoryEntry | None:
        undecided = (each for each in self._entries.values() if each.outcome is FailureOutcome.UNDECIDED)
        return next(undecided, None)

    def _put(self, entry: RootExceptionHistoryEntry) -> RootExceptionHistoryEntry:
        self._entries[entry.number] = entry
        if len(self._entries) > MAX_ENTRIES:
            dropped, _ = self._entries.popitem(last=False)
            self._numbers = {each: number for each, number in self._numbers.items() if number != dropped}
        return entry
