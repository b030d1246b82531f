"""Checks that at most one attempt of a subtask runs, and that reports of ended attempts change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.messages.control.checkpoint_coordination import CoordinatedTaskStateChanged, RestoreState
from flykka.messages.control.job import ExecutionStateChanged, JobStatusChanged
from flykka.messages.tasks.task import NotifyEndOfData, SubmitTask, UpdateTaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation, unwrapped
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.records import Turn


def subtask_of(attempt: ExecutionAttemptId) -> str:
    return _subtask_and_number(attempt)[0]


def number_of(attempt: ExecutionAttemptId) -> int:
    """Return the attempt number, from 0. An id that no JobMaster has created counts as 0."""
    return _subtask_and_number(attempt)[1]


def _subtask_and_number(attempt: str) -> tuple[str, int]:
    subtask, _, number = attempt.rpartition("_")
    return (subtask, int(number)) if number.isdecimal() else (attempt, 0)


_CHANGES = (ExecutionStateChanged, CoordinatedTaskStateChanged, JobStatusChanged, SubmitTask)
"""Messages that a JobMaster sends if a report has changed its state."""


@dataclass(slots=True)
class _WatchedAttempt:
    attempt: ExecutionAttemptId
    number: int
    lives: bool = True


@dataclass(slots=True)
class _WatchedJob:
    attempts: dict[str, _WatchedAttempt] = field(default_factory=dict)
    restored_id: int | None = None
    has_asked: bool = False
    """True if the checkpoint that the attempts restore is known."""


class AttemptMonitor(ConversationMonitor):
    name = "attempts"

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[Ref, _WatchedJob] = {}

    def received(self) -> Mapping[type, OnReceived]:
        return {
            UpdateTaskExecutionState: self._on_report,
            NotifyEndOfData: self._on_end_of_data,
            RestoreState: self._on_restore_state,
        }

    def sent(self) -> Mapping[type, OnSent]:
        return {SubmitTask: self._on_submitted, CoordinatedTaskStateChanged: self._on_moved}

    def ended(self, ref: Ref) -> None:
        self._jobs.pop(ref, None)

    def _on_submitted(self, turn: Turn, _to: Ref, message: SubmitTask) -> Iterator[Violation]:
        descriptor = message.descriptor
        job = self._jobs.setdefault(turn.recipient, _WatchedJob())
        former = job.attempts.get(subtask_of(descriptor.attempt))
        if former is not None and former.lives:
            yield self.violation(turn, f"{descriptor.attempt} is deployed while {former.attempt} is running")
        if former is not None and former.number >= descriptor.attempt_number:
            text = f"{descriptor.attempt} is deployed after {former.attempt}: attempt numbers must increase"
            yield self.violation(turn, text)
        if job.has_asked and descriptor.restored_checkpoint_id != job.restored_id:
            text = (
                f"{descriptor.attempt} begins from checkpoint {descriptor.restored_checkpoint_id},"
                f" but the job was restored from {job.restored_id}"
            )
            yield self.violation(turn, text)
        job.attempts[subtask_of(descriptor.attempt)] = _WatchedAttempt(descriptor.attempt, descriptor.attempt_number)

    def _on_moved(self, turn: Turn, _to: Ref, message: CoordinatedTaskStateChanged) -> None:
        newest = self._newest(turn, message.attempt)
        if newest is not None and newest.attempt == message.attempt and message.state in EXECUTION_TERMINAL:
            newest.lives = False

    def _on_restore_state(self, turn: Turn, message: RestoreState) -> None:
        job = self._jobs.setdefault(turn.recipient, _WatchedJob())
        job.restored_id = None if message.checkpoint is None else message.checkpoint.checkpoint_id
        job.has_asked = True

    def _on_report(self, turn: Turn, message: UpdateTaskExecutionState) -> Iterator[Violation]:
        return self._report(turn, message.state.attempt, f"the report {message.state.state}")

    def _on_end_of_data(self, turn: Turn, message: NotifyEndOfData) -> Iterator[Violation]:
        return self._report(turn, message.attempt, "the end of data")

    def _report(self, turn: Turn, reporter: ExecutionAttemptId, report: str) -> Iterator[Violation]:
        newest = self._newest(turn, reporter)
        if newest is None or (newest.attempt == reporter and newest.lives):
            return  # No newer attempt is known, or a TaskManager has received the report.
        for effect in turn.effects:
            if isinstance(effect, Send) and isinstance(change := unwrapped(effect.message), _CHANGES):
                text = f"{report} of {reporter}, which has ended, causes {type(change).__name__}"
                yield self.violation(turn, text)
                return

    def _newest(self, turn: Turn, attempt: ExecutionAttemptId) -> _WatchedAttempt | None:
        job = self._jobs.get(turn.recipient)
        return None if job is None else job.attempts.get(subtask_of(attempt))
