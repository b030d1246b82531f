"""No batch is sent without credit, and the batches of a channel arrive in order and without gaps."""

from __future__ import annotations

import pytest

from flykka.messages.attempt.answers import ChainClosed, ChainOpened, StageResult
from flykka.messages.tasks.exchange import (
    AddCredit,
    BatchRef,
    Buffer,
    BufferResponse,
    CancelPartitionRequest,
    EndOfPartition,
    PartitionRequest,
    Watermark,
)
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.exchange import ExchangeMonitor
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.records import Turn
from tests.flykka.monitors.turns import JOB_MASTER, TASK, TASK_MANAGER, turn, violations_of

PARTITION = ResultPartitionId("job_source_0_0:0")
PRODUCER = Ref("/user/task-manager-1/source-0.0-2", 1)
BATCH = BatchRef(batch_id=BatchId("b"), rows=1, size_bytes=1)
EMPTY = BatchRef(batch_id=BatchId("e"), rows=0, size_bytes=0)
DONE = StageResult(stage=0)


def request(credit: int) -> Message:
    return PartitionRequest(partition_id=PARTITION, subpartition=0, credit=credit, consumer=TASK)


def more(credit: int) -> Message:
    return AddCredit(partition_id=PARTITION, subpartition=0, credit=credit)


def element(number: int, buffer: Buffer = BATCH) -> Message:
    return BufferResponse(partition_id=PARTITION, subpartition=0, sequence_number=number, buffer=buffer, backlog=0)


def request_sent_turn(credit: int = 2) -> Turn:
    return turn(TASK, ChainOpened(), (TASK_MANAGER, request(credit)))


def request_turn(credit: int = 2) -> Turn:
    return turn(PRODUCER, request(credit))


def sends(*elements: Message) -> Turn:
    return turn(PRODUCER, DONE, *((TASK, each) for each in elements))


def test_batches_within_credit_may_be_sent_and_events_need_no_credit() -> None:
    sent = sends(element(0), element(1), element(2, Watermark(timestamp_ms=1)))

    assert violations_of(ExchangeMonitor(), request_turn(), sent, turn(PRODUCER, more(1)), sends(element(3))) == []


def test_a_batch_must_not_be_sent_without_credit() -> None:
    violations = violations_of(ExchangeMonitor(), request_turn(credit=1), sends(element(0), element(1, EMPTY)))

    assert violations == ["element 1 of subpartition 0 of job_source_0_0:0 is sent without credit"]


@pytest.mark.parametrize("number", [0, 2])
def test_elements_must_be_sent_in_order(number: int) -> None:
    violations = violations_of(ExchangeMonitor(), request_turn(), sends(element(0), element(number)))

    assert violations == [f"element {number} of subpartition 0 of job_source_0_0:0 is sent, but element 1 is the next"]


def test_batches_within_the_announced_credit_may_arrive() -> None:
    run = [request_sent_turn(), turn(TASK, element(0)), turn(TASK, element(1)), turn(TASK, element(2, EMPTY))]
    gives = turn(TASK, DONE, (TASK_MANAGER, more(1)))

    assert (
        violations_of(ExchangeMonitor(), *run, gives, turn(TASK, element(3)), turn(TASK, element(4, EndOfPartition())))
        == []
    )


def test_a_batch_must_not_arrive_without_credit() -> None:
    violations = violations_of(
        ExchangeMonitor(), request_sent_turn(credit=1), turn(TASK, element(0)), turn(TASK, element(1))
    )

    assert violations == ["element 1 of subpartition 0 of job_source_0_0:0 arrives without credit"]


def test_no_element_may_be_lost_or_duplicated_in_transit() -> None:
    violations = violations_of(
        ExchangeMonitor(), request_sent_turn(), turn(TASK, element(0)), turn(TASK, element(0)), turn(TASK, element(2))
    )

    assert violations[:2] == [
        "element 0 of subpartition 0 of job_source_0_0:0 arrives, but element 1 is the next",
        "element 2 of subpartition 0 of job_source_0_0:0 arrives, but element 1 is the next",
    ]


def test_a_repeated_request_is_served_from_the_beginning() -> None:
    assert violations_of(ExchangeMonitor(), request_turn(), sends(element(0)), request_turn(), sends(element(0))) == []


def test_elements_after_a_cancel_or_before_any_request_are_ignored() -> None:
    leaves = turn(TASK, DONE, (TASK_MANAGER, CancelPartitionRequest(partition_id=PARTITION, subpartition=0)))
    run = [turn(TASK, element(7)), sends(element(7)), request_sent_turn(), leaves, turn(TASK, element(9))]

    assert violations_of(ExchangeMonitor(), *run) == []


def test_a_task_manager_that_forwards_a_request_is_not_a_producer() -> None:
    handed_on = turn(TASK_MANAGER, request(0), (PRODUCER, request(0)))
    sent = turn(TASK_MANAGER, DONE, (TASK, element(5)))

    assert violations_of(ExchangeMonitor(), handed_on, sent) == []


def test_channels_of_an_ended_reader_are_dropped() -> None:
    ended = turn(TASK_MANAGER, DeathWatchNotification(ref=PRODUCER))

    assert violations_of(ExchangeMonitor(), request_turn(credit=0), ended, sends(element(3))) == []


def finishes(attempt_id: str = "job_source_0_0") -> Turn:
    state = TaskExecutionState(attempt=ExecutionAttemptId(attempt_id), state=ExecutionState.FINISHED)
    report = UpdateTaskExecutionState(state=state)
    return turn(PRODUCER, ChainClosed(), (JOB_MASTER, report), (TASK_MANAGER, report))


def test_a_finished_task_must_have_sent_the_end() -> None:
    violations = violations_of(ExchangeMonitor(), request_turn(), sends(element(0)), finishes())

    assert violations == ["job_source_0_0 finishes, but the end of subpartition 0 of job_source_0_0:0 was not sent"]


def test_a_task_may_finish_after_the_end_or_its_readers_departure() -> None:
    left = turn(PRODUCER, CancelPartitionRequest(partition_id=PARTITION, subpartition=0))

    assert violations_of(ExchangeMonitor(), request_turn(), sends(element(0, EndOfPartition())), finishes()) == []
    assert violations_of(ExchangeMonitor(), request_turn(), left, finishes()) == []
