"""The holder of an operator coordinator with two subtasks; the coordinator completes calls when the test says so."""

from __future__ import annotations

from flykka.actors.machines.coordinators.operator_coordinator_holder import (
    AttemptReady,
    CallCoordinator,
    CoordinatorEffect,
    CoordinatorEvent,
    CoordinatorReset,
    OperatorCoordinatorHolder,
)
from flykka.actors.machines.effects import Tell
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.tasks.operator_event import (
    CheckpointOperatorCoordinator,
    CoordinatorAnswer,
    CoordinatorCall,
    EventForSubtask,
    HandleEventFromOperator,
    OperatorCoordinatorAnswered,
    OperatorCoordinatorFailed,
    OperatorEvents,
    SendOperatorEvents,
    SentByFunction,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId, attempt_id

JOB, VERTEX, OPERATOR = JobId("job"), JobVertexId("numbers"), OperatorId("numbers")
CAUSE = SerializedThrowable(type_name="OperatorCoordinatorError", message="no more numbers")


def attempt(subtask: int, number: int = 0) -> ExecutionAttemptId:
    return attempt_id(JOB, VERTEX, subtask, number)


def events_sent(event: bytes, subtask: int = 0, *, behind: int = 0, number: int = 0) -> SendOperatorEvents:
    function = SentByFunction(operator_id=OPERATOR, events=(event,))
    return SendOperatorEvents(attempt=attempt(subtask, number), checkpoint_id=behind, sent=function)


def snapshot(checkpoint_id: int) -> SnapshotOperatorCoordinators:
    return SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=checkpoint_id)


def acknowledged(checkpoint_id: int, subtask: int = 0) -> AcknowledgeCheckpoint:
    return AcknowledgeCheckpoint(job_id=JOB, attempt=attempt(subtask), checkpoint_id=checkpoint_id)


def checkpoint_completed(checkpoint_id: int, *, is_retained: bool = True) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint_id,
        duration_ms=1,
        size_bytes=0,
        incremental_bytes=0,
        path="",
        timestamp_ms=0,
        is_retained=is_retained,
    )


def checkpoint_aborted(checkpoint_id: int) -> CheckpointAborted:
    reason = CheckpointDeclineReason.EXPIRED
    return CheckpointAborted(job_id=JOB, checkpoint_id=checkpoint_id, reason=reason, timestamp_ms=0)


class Harness:
    def __init__(self, reset: CoordinatorReset | None = None) -> None:
        self.holder = OperatorCoordinatorHolder(JOB, VERTEX, OPERATOR, parallelism=2)
        self.at_work: CallCoordinator | None = None
        self.messages_to_subtasks: list[OperatorEvents] = []
        self.effects: list[CoordinatorEffect] = []
        self.tell(CoordinatorReset(checkpoint_id=None, state=None) if reset is None else reset)

    def tell(self, *events: CoordinatorEvent) -> list[CoordinatorEffect]:
        """Handle the events, and return all effects except calls of the coordinator and messages to subtasks."""
        others: list[CoordinatorEffect] = []
        for event in events:
            for effect in self.holder.handle(event):
                match effect:
                    case CallCoordinator():
                        assert self.at_work is None, "two calls at a time"
                        self.at_work = effect
                    case Tell(message=OperatorEvents() as message):
                        self.messages_to_subtasks.append(message)
                    case _:
                        others.append(effect)
            self.holder.check()
        return others

    def answer(
        self, *events: tuple[int, bytes], state: bytes | None = None, number: int = 0
    ) -> list[CoordinatorEffect]:
        """Complete the running call of the coordinator; `events` were sent to subtasks during the call."""
        assert self.at_work is not None, "nothing was called"
        call, self.at_work = self.at_work, None
        for_subtasks = tuple(
            EventForSubtask(subtask=subtask, attempt_number=number, event=event) for subtask, event in events
        )
        if state is None and isinstance(call.calls[-1], CheckpointOperatorCoordinator):
            state = b"state"
        answer = CoordinatorAnswer(events=for_subtasks, state=state)
        return self.tell(OperatorCoordinatorAnswered(operator_id=OPERATOR, call=call.call, answer=answer))

    def fail(self, cause: SerializedThrowable) -> list[CoordinatorEffect]:
        """Fail the running call of the coordinator; the failure is delivered twice."""
        assert self.at_work is not None, "nothing was called"
        call, self.at_work = self.at_work.call, None
        failed = OperatorCoordinatorFailed(operator_id=OPERATOR, call=call, cause=cause)
        return self.tell(failed, failed)

    def run(self) -> Harness:
        self.tell(AttemptReady(attempt=attempt(0)), AttemptReady(attempt=attempt(1)))
        while self.at_work is not None:
            self.answer()
        return self

    @property
    def calls(self) -> tuple[CoordinatorCall, ...]:
        assert self.at_work is not None, "nothing was called"
        return self.at_work.calls

    @property
    def received(self) -> list[tuple[str, tuple[bytes, ...]]]:
        return [(message.attempt, message.events) for message in self.messages_to_subtasks]


def handled(event: bytes, subtask: int = 0, number: int = 0) -> HandleEventFromOperator:
    return HandleEventFromOperator(subtask=subtask, attempt_number=number, event=event)
