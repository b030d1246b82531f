"""If a Task requests a partition and the TaskManager ends without a response, the failure names this cause."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.tasks.exchange import BufferResponse, PartitionRequest, Watermark
from flykka.messages.tasks.task import (
    ExecutionState,
    InputChannelDescriptor,
    InputGateDescriptor,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import ExecutionAttemptId, partition_id
from tests.actors.machines.scheduling.descriptors import descriptor
from tests.actors.peer import Probe
from tests.actors.task_manager_cluster import TaskManagerCluster

WANTED = partition_id(ExecutionAttemptId("producer"), 0)


def submit_reader(cluster: TaskManagerCluster, producers: Probe) -> None:
    channel = InputChannelDescriptor(partition_id=WANTED, subpartition=0, task_manager=producers.ref)
    reader = replace(descriptor("reader"), inputs=(InputGateDescriptor(gate=0, channels=(channel,)),))
    cluster.send(SubmitTask(descriptor=reader, job_master=cluster.job_master.ref))


def last_state(cluster: TaskManagerCluster) -> UpdateTaskExecutionState:
    return cluster.job_master.received(UpdateTaskExecutionState)[-1]


def test_a_request_fails_with_the_partition_if_the_task_manager_ends_first(
    connected: TaskManagerCluster,
) -> None:
    producers = Probe(connected.system, "producers")
    submit_reader(connected, producers)

    connected.system.kill(producers.ref)
    connected.system.run_until_idle()

    state = last_state(connected).state
    assert state.failure is not None
    assert (state.state, state.failure.type_name) == (ExecutionState.FAILED, "PartitionConnectionError")
    assert WANTED in state.failure.message


def test_a_request_to_an_ended_task_manager_fails_with_the_same_error(connected: TaskManagerCluster) -> None:
    producers = Probe(connected.system, "producers")
    connected.system.kill(producers.ref)

    submit_reader(connected, producers)

    failure = last_state(connected).state.failure
    assert failure is not None
    assert failure.type_name == "PartitionConnectionError"


def test_a_producer_lost_after_its_response_does_not_fail_the_reader(connected: TaskManagerCluster) -> None:
    producers = Probe(connected.system, "producers")
    submit_reader(connected, producers)
    request = producers.expect(PartitionRequest)
    answer = BufferResponse(
        partition_id=WANTED, subpartition=0, sequence_number=0, buffer=Watermark(timestamp_ms=1), backlog=0
    )
    producers.send(request.consumer, answer)

    connected.system.kill(producers.ref)
    connected.system.run_until_idle()

    assert last_state(connected).state.state is ExecutionState.RUNNING
