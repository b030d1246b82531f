"""The reply to a consumer that requests the state of its partition's producer."""

from __future__ import annotations

import pytest

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_DISPOSED_ERROR
from flykka.actors.machines.graph.events import Effect
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.tasks.task import ExecutionState, PartitionProducerState, RequestPartitionProducerState
from flykka.messages.wire.ids import ExecutionAttemptId, ResultPartitionId
from tests.actors.machines.graph.running import Running


def request_producer_state(running: Running, consumer: str, producer: str) -> list[Effect]:
    return running.tell(
        RequestPartitionProducerState(
            attempt=ExecutionAttemptId(consumer), partition_id=ResultPartitionId(f"{producer}:0")
        )
    )


def test_a_consumer_gets_the_state_of_a_missing_partitions_producer() -> None:
    running = Running()
    running.deploy()

    (answered,) = request_producer_state(running, "job_sink_0_0", "job_source_1_0")

    assert isinstance(answered, Tell)
    answer = answered.message
    assert isinstance(answer, PartitionProducerState)
    assert answer == PartitionProducerState(
        attempt=ExecutionAttemptId("job_sink_0_0"),
        partition_id=ResultPartitionId("job_source_1_0:0"),
        state=ExecutionState.DEPLOYING,
    )


UNKNOWN_PRODUCERS = ["nobody", "job_nobody_0_0", "job_source_9_0", "job_source_0_1", "job_source_x_0", "other_sink_0_0"]


@pytest.mark.parametrize("producer", UNKNOWN_PRODUCERS)
def test_an_unknown_producer_fails_only_the_requester(producer: str) -> None:
    running = Running()
    running.run()

    (answered,) = request_producer_state(running, "job_sink_0_0", producer)

    assert isinstance(answered, Tell)
    answer = answered.message
    assert isinstance(answer, PartitionProducerState)
    assert answer.state is None
    assert answer.failure is not None
    assert answer.failure.type_name == "PartitionProducerUnknownError"
    assert producer in answer.failure.message
    assert running.graph.status is JobStatus.RUNNING


def test_a_replaced_producer_is_reported_as_disposed() -> None:
    running = Running()
    running.run()
    running.report("job_source_0_0", ExecutionState.FAILED)
    running.report_all(ExecutionState.CANCELED)
    running.tell(JobRestartDue(version=running.graph.version))
    running.restore()
    running.give_slots()

    (answered,) = request_producer_state(running, "job_sink_0_1", "job_source_0_0")

    assert isinstance(answered, Tell)
    answer = answered.message
    assert isinstance(answer, PartitionProducerState)
    assert answer.failure is not None
    assert answer.failure.type_name == PRODUCER_DISPOSED_ERROR


def test_an_ended_attempt_gets_no_messages() -> None:
    running = Running()
    running.run()
    running.report("job_sink_0_0", ExecutionState.FAILED)

    (ignored,) = request_producer_state(running, "job_sink_0_0", "job_source_0_0")

    assert isinstance(ignored, Ignore)
