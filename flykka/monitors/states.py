"""Checks the transitions of jobs, execution attempts and tasks against `actors/machines/states.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.states import TASK_MOVES, execution_may_move, job_may_move
from flykka.messages.control.job import ExecutionStateChanged, JobStatus, JobStatusChanged, RegisterJobClient
from flykka.messages.tasks.task import ExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.ref import Ref
from flykka.monitors.attempts import number_of, subtask_of
from flykka.monitors.monitor import ConversationMonitor, OnSent, Violation, unwrapped
from flykka.runtime.trace.records import Turn

_JOB_MANAGER = "/job-manager"


@dataclass(slots=True)
class _ReportedStates:
    """The states reported by one actor to one listener: a job's status, and the newest attempt of each subtask."""

    status: JobStatus | None = None
    attempts: dict[str, tuple[ExecutionAttemptId, ExecutionState]] = field(default_factory=dict)


class StateMonitor(ConversationMonitor):
    name = "states"

    def __init__(self, *, is_whole: bool = True) -> None:
        super().__init__()
        self._is_whole = is_whole
        self._reported: dict[Ref, dict[Ref, _ReportedStates]] = {}

    def sent(self) -> Mapping[type, OnSent]:
        return {
            JobStatusChanged: self._on_job,
            ExecutionStateChanged: self._on_execution,
            UpdateTaskExecutionState: self._on_task,
        }

    def ended(self, ref: Ref) -> None:
        self._reported.pop(ref, None)

    def _on_job(self, turn: Turn, listener: Ref, message: JobStatusChanged) -> Iterator[Violation]:
        if isinstance(unwrapped(turn.message), JobStatusChanged):
            return  # A client forwards the message to its listeners.
        if turn.recipient.path.endswith(_JOB_MANAGER):
            return  # The JobManager reports the state of an ended JobMaster, which may be any state.
        reported = self._of(turn, listener)
        former = reported.status or (JobStatus.CREATED if self._is_whole and not _is_report(turn) else None)
        if former is not None and not job_may_move(former, message.status):
            yield self.violation(turn, f"job {message.job_id} moves from {former} to {message.status}")
        reported.status = message.status

    def _on_execution(self, turn: Turn, listener: Ref, message: ExecutionStateChanged) -> Iterator[Violation]:
        if isinstance(unwrapped(turn.message), ExecutionStateChanged):
            return  # A client forwards the message to its listeners.
        yield from self._move(turn, listener, message.attempt, message.state, execution_may_move)

    def _on_task(self, turn: Turn, listener: Ref, message: UpdateTaskExecutionState) -> Iterator[Violation]:
        yield from self._move(turn, listener, message.state.attempt, message.state.state, _task_may_reach)

    def _move(
        self,
        turn: Turn,
        listener: Ref,
        attempt: ExecutionAttemptId,
        state: ExecutionState,
        may_move: Callable[[ExecutionState, ExecutionState], bool],
    ) -> Iterator[Violation]:
        subtask, reported = subtask_of(attempt), self._of(turn, listener)
        newest, former = reported.attempts.get(subtask, (None, ExecutionState.CREATED))
        if newest is None and (not self._is_whole or _is_report(turn)):
            pass
        elif newest is not None and number_of(newest) > number_of(attempt):
            yield self.violation(turn, f"{attempt} moves to {state}, but {newest} has replaced it")
        else:
            former = former if newest == attempt else ExecutionState.CREATED
            if not may_move(former, state):
                yield self.violation(turn, f"{attempt} moves from {former} to {state}")
        reported.attempts[subtask] = (attempt, state)

    def _of(self, turn: Turn, listener: Ref) -> _ReportedStates:
        return self._reported.setdefault(turn.recipient, {}).setdefault(listener, _ReportedStates())


def _is_report(turn: Turn) -> bool:
    """Return whether the message reports the current state to a late listener, and is not an event."""
    return isinstance(unwrapped(turn.message), RegisterJobClient)


def _task_may_reach(former: ExecutionState, state: ExecutionState) -> bool:
    """Return whether `state` is reachable. A task does not report every state that it passes through."""
    return any(state is following or _task_may_reach(following, state) for following in TASK_MOVES[former])
