"""Tasks that do not find their producer's partition. The case sets the state of each task before the reply."""

from __future__ import annotations

from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.attempt.events import StartTask, TaskEffect, TaskEvent
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_DISPOSED_ERROR
from flykka.messages.attempt.answers import ChainClosed, ChainOpened
from flykka.messages.attempt.commands import CloseChain
from flykka.messages.tasks.exchange import ErrorResponse, PartitionRequest, PartitionRequestDue
from flykka.messages.tasks.task import ExecutionState, PartitionProducerState, RequestPartitionProducerState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from tests.actors.machines.graph.graphs import failure
from tests.conformance.case_files import UnknownWordError
from tests.conformance.states.descriptors import PARTITION, consumer_descriptor

_FAILURES = {
    "dispos": PRODUCER_DISPOSED_ERROR,
    "exception": "RemoteError",
    "error": "RemoteError",
    "fail": "RemoteError",
}


class ConsumerCase:
    """The final states of the consumers, and the repeated requests for the partition."""

    def __init__(self) -> None:
        self.after: dict[str, ExecutionState] = {}
        self.retries = 0
        self.state: ExecutionState | None = None

    def producer_is(self, state: ExecutionState, reset_task_to: str) -> None:
        answer = self._answer(state=state)
        match reset_task_to:
            case "RUNNING":
                self._tell(answer)
            case "DEPLOYING":
                self._tell_before_it_runs(answer)
            case _:
                raise UnknownWordError(f"reset_task_to {reset_task_to!r}")
        assert self.state is not None
        self.after[state] = self.state

    def producer_check_answers(self, answer: str) -> None:
        """Reply with a state or with a failure, or do not reply in time, as the JobMaster does."""
        word = next((known for known in _FAILURES if known in answer.lower()), None)
        if answer in ExecutionState.__members__:
            self._tell(self._answer(state=ExecutionState(answer)))
        elif answer == "timeout":
            self._tell(None)
        elif word is not None:
            self._tell(self._answer(failure_type=_FAILURES[word]))
        else:
            raise UnknownWordError(f"answer {answer!r}")

    def _answer(
        self, *, state: ExecutionState | None = None, failure_type: str | None = None
    ) -> PartitionProducerState:
        cause = None if failure_type is None else SerializedThrowable(type_name=failure_type, message="the answer")
        attempt = consumer_descriptor().attempt
        return PartitionProducerState(attempt=attempt, partition_id=PARTITION, state=state, failure=cause)

    def _tell(self, answer: PartitionProducerState | None) -> None:
        task = StreamTask(consumer_descriptor(), Ref("/task", 1))
        for event in (StartTask(), ChainOpened()):
            task.handle(event, now=0)
        not_found = failure("not found")
        missed = task.handle(
            ErrorResponse(partition_id=PARTITION, subpartition=0, cause=not_found, partition_not_found=True), now=0
        )
        (retry,) = [effect for effect in missed if isinstance(effect, StartTimer)]
        assert any(_asks_for_producer(effect) for effect in missed)
        effects = [] if answer is None else self._deliver(task, answer)
        self.state = task.state.current
        again = task.handle(PartitionRequestDue(channel=0), now=retry.delay_ms)
        self.retries += sum(_asks_for_partition(effect) for effect in [*effects, *again])

    def _tell_before_it_runs(self, answer: PartitionProducerState) -> None:
        """Reply before the task runs. Partitions are requested only once the bridge is open, so the reply applies to
        that request.
        """
        task = StreamTask(consumer_descriptor(), Ref("/task", 1))
        task.handle(StartTask(), now=0)
        effects = self._deliver(task, answer)
        self.state = task.state.current
        opened = task.handle(ChainOpened(), now=0) if self.state is ExecutionState.DEPLOYING else []
        self.retries += sum(_asks_for_partition(effect) for effect in [*effects, *opened])

    def _deliver(self, task: StreamTask, answer: TaskEvent) -> list[TaskEffect]:
        effects = task.handle(answer, now=0)
        closes = any(
            isinstance(effect, Tell) and effect.to is Role.BRIDGE and isinstance(effect.message, CloseChain)
            for effect in effects
        )
        if closes and task.state.current is not ExecutionState.CANCELING:
            effects += task.handle(ChainClosed(), now=0)
        return effects


def _asks_for_producer(effect: TaskEffect) -> bool:
    return (
        isinstance(effect, Tell)
        and effect.to is Role.JOB_MASTER
        and isinstance(effect.message, RequestPartitionProducerState)
    )


def _asks_for_partition(effect: TaskEffect) -> bool:
    return isinstance(effect, Tell) and isinstance(effect.message, PartitionRequest)
