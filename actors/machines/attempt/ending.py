"""The state of an execution attempt, and how it ends (Flink's Task, with its TaskInterrupter and TaskCancelerWatchDog).

CREATED -> DEPLOYING while the chain is restored -> RUNNING -> FINISHED, CANCELED or FAILED. The chain is closed first,
and the end is reported when it has closed, so that two attempts never run at the same time. The first reason to end
counts, except that an attempt about to finish may still fail or be cancelled while user functions are closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from flykka.actors.machines.attempt.events import EndAttempt, TaskEffect
from flykka.actors.machines.effects import Ignore, LogWarning, Role, StartTimer, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_DISPOSED_ERROR
from flykka.actors.machines.exchange.watermarks import MonotonyViolated
from flykka.actors.machines.states import task_may_move
from flykka.messages.attempt.answers import ChainClosed
from flykka.messages.attempt.commands import CancelWork, CloseChain, InterruptWork
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.task import (
    CancellationDue,
    ExecutionState,
    FatalErrorOccurred,
    PartitionProducerState,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId

INTERVAL_MS = 30_000
TIMEOUT_MS = 180_000
"""The default cancellation timeout in ms, as in Flink, if the cluster configures none."""

S = ExecutionState
# Constants, because they are read several times in every turn of a Task and looking up an Enum member is slow.
_RUNNING = S.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    state: ExecutionState
    failure: SerializedThrowable | None = None


class AttemptState:
    """The current state of an attempt, and the terminal state that it approaches."""

    __slots__ = ("_end", "_now", "attempt", "cancellation", "current", "is_closing")

    def __init__(self, attempt: ExecutionAttemptId, cluster: TaskCancellationSettings | None = None) -> None:
        self.attempt = attempt
        self.cancellation = TaskCancellation(attempt, cluster or TaskCancellationSettings())
        self.current = S.CREATED
        # While the chain is closing, only the response to the close command counts.
        self.is_closing = False
        self._end: _End | None = None
        self._now = 0

    @property
    def is_running(self) -> bool:
        return self.current is _RUNNING and self._end is None

    @property
    def is_finishing(self) -> bool:
        """True if the attempt only completes the work that it has begun, and is then FINISHED."""
        return self._end is not None and self._end.state is S.FINISHED

    @property
    def may_process(self) -> bool:
        return self.is_running or self.is_finishing

    @property
    def may_consume(self) -> bool:
        """True if the attempt reads partitions, or soon will, so that the states of their producers matter."""
        return self.current in (S.DEPLOYING, S.RUNNING) and self._end is None

    @property
    def ending(self) -> ExecutionState | None:
        return None if self._end is None else self._end.state

    @property
    def _has_final_end(self) -> bool:
        return self._end is not None and self._end.state is not S.FINISHED

    def on_tick(self, now: int) -> None:
        self._now = now

    def deploy(self, job: TaskCancellationSettings) -> None:
        """Begin to restore the chain. Settings of the job take precedence over those of the cluster."""
        self.cancellation.configure(job)
        self._move(S.DEPLOYING)

    def run(self) -> list[TaskEffect]:
        if self._end is not None:
            return [Ignore(reason=f"the attempt is ending as {self._end.state}")]
        self._move(S.RUNNING)
        return [self._report(_End(state=S.RUNNING))]

    def finish(self) -> list[TaskEffect]:
        return self._begin_end(_End(state=S.FINISHED))

    def close(self) -> list[TaskEffect]:
        return [] if self.is_closing else self._close(cancel=False)

    def cancel(self) -> list[TaskEffect]:
        if not self._has_final_end:
            self._move(S.CANCELING)
        return self._begin_end(_End(state=S.CANCELED))

    def fail(self, failure: SerializedThrowable) -> list[TaskEffect]:
        return self._begin_end(_End(state=S.FAILED, failure=failure))

    def on_cancellation_due(self) -> list[TaskEffect]:
        return self.cancellation.on_due(self._now)

    def on_monotony_violated(self, vertex: str, violated: MonotonyViolated | None) -> list[TaskEffect]:
        """Log that event times which should ascend have gone backwards, or fail the attempt, as the job specifies."""
        if violated is None:
            return []
        text = f"{vertex}: {violated}"
        if violated.is_fatal:
            return self.fail(SerializedThrowable(type_name="MonotonyViolationError", message=text))
        return [LogWarning(text=text)]

    def on_producer_state(self, producer: PartitionProducerState) -> list[TaskEffect]:
        """Decide on a partition that was not found, by the state of its producer (Flink's RemoteChannelStateChecker).

        The attempt cancels itself if the producer has failed, was cancelled or was replaced: the producer's failure
        decides on the recovery. The attempt fails if the producer is unknown or in an impossible state.
        """
        match producer.state:
            case S.SCHEDULED | S.DEPLOYING | S.RUNNING | S.FINISHED:
                return [Ignore(reason="the producer exists or will start: its partition is requested again")]
            case None if producer.failure is not None and producer.failure.type_name != PRODUCER_DISPOSED_ERROR:
                return self.fail(producer.failure)
            case None | S.CANCELING | S.CANCELED | S.FAILED:
                return self.cancel()
            case S.CREATED | S.RECONCILING:
                text = f"the producer of {producer.partition_id} is {producer.state}, and its consumer runs already"
                return self.fail(SerializedThrowable(type_name="IllegalStateError", message=text))
            case _:
                assert_never(producer.state)

    def chain_closed(self, closed: ChainClosed) -> list[TaskEffect]:
        assert self._end is not None, "the chain has closed without being asked to"
        if closed.failure is not None and not self._has_final_end:
            self._end = _End(state=S.FAILED, failure=closed.failure)
        self._move(self._end.state)
        return [self._report(self._end, closed.accumulators), EndAttempt()]

    def bridge_lost(self, failure: SerializedThrowable, *, keeps_results: bool = False) -> list[TaskEffect]:
        """End the attempt, because its bridge has died. If the attempt was closing anyway, the chain counts as closed.

        An attempt that should retain its results fails, because results that the bridge had not yet transferred are
        lost.
        """
        if self._end is None or (keeps_results and self.is_finishing):
            self._end = _End(state=S.FAILED, failure=failure)
        return self.chain_closed(ChainClosed())

    def _begin_end(self, end: _End) -> list[TaskEffect]:
        if self._end is not None and self._has_final_end:
            return [Ignore(reason=f"the attempt is already ending as {self._end.state}")]
        self._end = end
        if end.state is S.FINISHED:
            return []
        closing = [] if self.is_closing else self._close(cancel=True)
        return [Tell(to=Role.BRIDGE, message=CancelWork()), *closing, *self.cancellation.start_watchdog(self._now)]

    def _close(self, *, cancel: bool) -> list[TaskEffect]:
        self.is_closing = True
        return [Tell(to=Role.BRIDGE, message=CloseChain(cancel=cancel))]

    def _report(self, end: _End, accumulators: tuple[AccumulatorSnapshot, ...] = ()) -> TaskEffect:
        reached = TaskExecutionState(
            attempt=self.attempt, state=end.state, failure=end.failure, accumulators=accumulators
        )
        return Tell(to=Role.JOB_MASTER, message=UpdateTaskExecutionState(state=reached))

    def _move(self, target: ExecutionState) -> None:
        assert task_may_move(self.current, target), f"{self.attempt}: {self.current} -> {target}"
        self.current = target


class TaskCancellation:
    """Escalates a cancellation that does not end.

    At every interval the work is cancelled again, because Spark may have begun new jobs since, and its threads are
    interrupted. After the timeout (0: never) a fatal error is reported to the TaskManager. The TaskManager then
    terminates, because it no longer knows what runs, and with it all claims on its slots are lost.
    """

    __slots__ = ("_attempt", "_begun_ms", "interval_ms", "timeout_ms")

    def __init__(self, attempt: ExecutionAttemptId, cluster: TaskCancellationSettings) -> None:
        self._attempt = attempt
        self.interval_ms = INTERVAL_MS if cluster.interval_ms is None else cluster.interval_ms
        self.timeout_ms = TIMEOUT_MS if cluster.timeout_ms is None else cluster.timeout_ms
        self._begun_ms: int | None = None

    def configure(self, job: TaskCancellationSettings) -> None:
        if job.interval_ms is not None:
            self.interval_ms = job.interval_ms
        if job.timeout_ms is not None:
            self.timeout_ms = job.timeout_ms

    def start_watchdog(self, now: int) -> list[TaskEffect]:
        if self._begun_ms is not None:
            return []
        self._begun_ms = now
        return [self._timer(now, now)]

    def on_due(self, now: int) -> list[TaskEffect]:
        assert self._begun_ms is not None, "no cancellation has begun"
        if self.timeout_ms and now - self._begun_ms >= self.timeout_ms:
            fatal = FatalErrorOccurred(attempt=self._attempt, cause=self._cause())
            return [Tell(to=Role.TASK_MANAGER, message=fatal)]
        again = [Tell(to=Role.BRIDGE, message=message) for message in (CancelWork(), InterruptWork())]
        return [*again, self._timer(self._begun_ms, now)]

    def _timer(self, begun_ms: int, now: int) -> StartTimer:
        left_ms = begun_ms + self.timeout_ms - now if self.timeout_ms else self.interval_ms
        return StartTimer(key="cancellation", delay_ms=min(self.interval_ms, left_ms), message=CancellationDue())

    def _cause(self) -> SerializedThrowable:
        return SerializedThrowable(
            type_name="TaskCancellationTimeoutError",
            message=f"{self._attempt} did not end within {self.timeout_ms} ms after it was cancelled: its work cannot"
            " be stopped; raise the limit with set_task_cancellation(timeout=...)",
        )
