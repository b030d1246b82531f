"""The life of one execution attempt on its TaskManager (the states of Flink's Task).

CREATED -> DEPLOYING while the chain restores -> RUNNING -> FINISHED, CANCELED or FAILED. The end is a handshake: the
chain is closed first and the end is reported when it has answered, so that the next attempt never runs beside this
one. The first reason to end is the one that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from flykka.actors.machines.attempt.effects import EndAttempt, TaskEffect
from flykka.actors.machines.attempt.partition_producer import CancelSelf, Consequence, Wait
from flykka.actors.machines.attempt.task_cancellation import TaskCancellation
from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.states import task_may_move
from flykka.messages.attempt.answers import ChainClosed
from flykka.messages.attempt.commands import CancelWork, CloseChain
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId

# Looked up several times in every turn of a Task: an Enum member is slow to reach.
_RUNNING = ExecutionState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    state: ExecutionState
    failure: SerializedThrowable | None = None


class AttemptLife:
    """The state of an attempt and the end it is on its way to."""

    __slots__ = ("_attempt", "_end", "_is_closing", "_now", "cancellation", "state")

    def __init__(self, attempt: ExecutionAttemptId, cluster: TaskCancellationSettings | None = None) -> None:
        self._attempt = attempt
        self.cancellation = TaskCancellation(attempt, cluster or TaskCancellationSettings())
        self._now = 0
        self._end: _End | None = None
        self._is_closing = False
        self.state = ExecutionState.CREATED

    @property
    def is_running(self) -> bool:
        """The attempt processes: it is RUNNING and not on its way to an end."""
        return self.state is _RUNNING and self._end is None

    @property
    def is_finishing(self) -> bool:
        """The attempt ends its work, and then it has FINISHED."""
        return self._end is not None and self._end.state is ExecutionState.FINISHED

    @property
    def may_process(self) -> bool:
        """The attempt processes, or ends the work that it has begun before it finishes."""
        return self.is_running or self.is_finishing

    @property
    def attempt(self) -> ExecutionAttemptId:
        """The execution attempt."""
        return self._attempt

    @property
    def ending(self) -> ExecutionState | None:
        """The end that the attempt is on its way to, while its chain closes."""
        return None if self._end is None else self._end.state

    @property
    def is_closing(self) -> bool:
        """The chain is closing: the answer to that is the only one that counts."""
        return self._is_closing

    @property
    def may_consume(self) -> bool:
        """The attempt reads partitions or is about to: what becomes of their producers concerns it."""
        return self.state in (ExecutionState.DEPLOYING, ExecutionState.RUNNING) and self._end is None

    @property
    def _is_ending(self) -> bool:
        """There is an end that nothing changes any more.

        An attempt that is about to finish may still fail, or be cancelled: its chain is closing functions of the
        user's, and has not finished before they are closed.
        """
        return self._end is not None and self._end.state is not ExecutionState.FINISHED

    def pass_time(self, now: int) -> None:
        """Set the time of the events that follow."""
        self._now = now

    def deploy(self, job: TaskCancellationSettings) -> None:
        """The attempt is being made ready, with what its job says of cancellation."""
        self.cancellation.load(job)
        self._move(ExecutionState.DEPLOYING)

    def run(self) -> list[TaskEffect]:
        """The chain is open."""
        if self._end is not None:
            return [Ignore(reason=f"the attempt is on its way to {self._end.state}")]
        self._move(ExecutionState.RUNNING)
        return [self._report(_End(state=ExecutionState.RUNNING))]

    def finish(self) -> list[TaskEffect]:
        """All is processed and committed."""
        return self._begin_end(_End(state=ExecutionState.FINISHED))

    def close(self) -> list[TaskEffect]:
        """The work of an attempt that finishes has ended: close its chain."""
        return [] if self._is_closing else self._close(cancel=False)

    def cancel(self) -> list[TaskEffect]:
        """The JobMaster wants the attempt to stop."""
        if not self._is_ending:
            self._move(ExecutionState.CANCELING)
        return self._begin_end(_End(state=ExecutionState.CANCELED))

    def fail(self, failure: SerializedThrowable) -> list[TaskEffect]:
        """The attempt cannot continue, or what is done after its last stage has failed."""
        return self._begin_end(_End(state=ExecutionState.FAILED, failure=failure))

    def cancellation_due(self) -> list[TaskEffect]:
        """The chain has not closed so far."""
        return self.cancellation.on_due(self._now)

    def on_producer_state(self, consequence: Consequence) -> list[TaskEffect]:
        """Act on the state of a producer that the attempt reads."""
        match consequence:
            case Wait():
                return [Ignore(reason="the producer is there or comes: its partition is asked for again")]
            case CancelSelf():
                return self.cancel()
            case SerializedThrowable():
                return self.fail(consequence)
            case _:
                assert_never(consequence)

    def chain_closed(self, closed: ChainClosed) -> list[TaskEffect]:
        """Nothing of the attempt runs any more: report its end, and what it has counted."""
        assert self._end is not None, "the chain closed without a command"
        if closed.failure is not None and not self._is_ending:
            self._end = _End(state=ExecutionState.FAILED, failure=closed.failure)
        self._move(self._end.state)
        return [self._report(self._end, closed.accumulators), EndAttempt()]

    def bridge_lost(self, failure: SerializedThrowable, *, keeps_results: bool = False) -> list[TaskEffect]:
        """The bridge died. Where it was closing anyway, that is as good as closed.

        With it goes what it had not handed over: who finishes with results that are to be kept has none.
        """
        if self._end is None or (keeps_results and self.is_finishing):
            self._end = _End(state=ExecutionState.FAILED, failure=failure)
        return self.chain_closed(ChainClosed())

    def _begin_end(self, end: _End) -> list[TaskEffect]:
        if self._end is not None and self._is_ending:
            return [Ignore(reason=f"the attempt is already on its way to {self._end.state}")]
        self._end = end
        if end.state is ExecutionState.FINISHED:
            return []
        closing = [] if self._is_closing else self._close(cancel=True)
        return [Tell(to=Role.BRIDGE, message=CancelWork()), *closing, *self.cancellation.start_watchdog(self._now)]

    def _close(self, *, cancel: bool) -> list[TaskEffect]:
        self._is_closing = True
        return [Tell(to=Role.BRIDGE, message=CloseChain(cancel=cancel))]

    def _report(self, end: _End, accumulators: tuple[AccumulatorSnapshot, ...] = ()) -> Tell[Role]:
        reached = TaskExecutionState(
            attempt=self._attempt, state=end.state, failure=end.failure, accumulators=accumulators
        )
        return Tell(to=Role.JOB_MASTER, message=UpdateTaskExecutionState(state=reached))

    def _move(self, target: ExecutionState) -> None:
        assert task_may_move(self.state, target), f"{self._attempt}: {self.state} -> {target}"
        self.state = target
