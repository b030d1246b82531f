"""A TaskManager distributes its network buffers, and refuses an attempt whose minimum is not available."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.messages.tasks.exchange import (
    AddCredit,
    BufferResponse,
    BuffersResized,
    CancelPartitionRequest,
    ErrorResponse,
    PartitionRequest,
)
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    ResultPartitionDescriptor,
    SubmitTask,
    TaskDeploymentDescriptor,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import ExecutionAttemptId, partition_id
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.exchange.builders import batch_ref
from tests.actors.machines.scheduling.descriptors import descriptor
from tests.actors.task_manager_cluster import HERE, TaskManagerCluster, connect


def with_output(attempt: str, subpartitions: int = 1) -> TaskDeploymentDescriptor:
    output = ResultPartitionDescriptor(
        partition_id=partition_id(ExecutionAttemptId(attempt), 0),
        output=0,
        subpartitions=subpartitions,
        ship_strategy=ShipStrategy.HASH,
        max_parallelism=128,
    )
    return replace(descriptor(attempt), outputs=(output,))


def submit(cluster: TaskManagerCluster, attempt: str, subpartitions: int = 1) -> None:
    deployed = with_output(attempt, subpartitions)
    cluster.send(SubmitTask(descriptor=deployed, job_master=cluster.job_master.ref))


def connected_with(system: SeededSystem, network_buffers: int) -> TaskManagerCluster:
    cluster = TaskManagerCluster(system, network=NetworkSettings(network_buffers=network_buffers))
    connect(cluster)
    return cluster


def resized(cluster: TaskManagerCluster) -> list[tuple[int, ...]]:
    sizes: list[tuple[int, ...]] = []

    def note(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        if isinstance(message, BuffersResized):
            sizes.append(message.buffers.outputs)

    cluster.system.add_delivery_hook(note)
    return sizes


def test_an_attempt_whose_minimum_of_buffers_is_unavailable_fails_with_the_figures(
    system: SeededSystem,
) -> None:
    cluster = connected_with(system, network_buffers=4)

    submit(cluster, "wide", subpartitions=4)
    submit(cluster, "narrow", subpartitions=3)

    failed, running = (update.state for update in cluster.job_master.received(UpdateTaskExecutionState))
    assert failed.failure is not None
    assert failed.failure.type_name == "InsufficientNetworkBuffersError"
    assert "Source: flights (1) cannot run on task-manager-1" in failed.failure.message
    assert "required 5, but only 4 available" in failed.failure.message
    assert (failed.attempt, failed.state) == ("wide", ExecutionState.FAILED)
    assert (running.attempt, running.state) == ("narrow", ExecutionState.RUNNING)


def test_an_ended_attempt_returns_its_buffers_for_the_next(system: SeededSystem) -> None:
    cluster = connected_with(system, network_buffers=4)
    submit(cluster, "first", subpartitions=3)

    cluster.send(CancelTask(attempt=ExecutionAttemptId("first")))
    submit(cluster, "second", subpartitions=3)

    assert cluster.states()[-2:] == [("first", ExecutionState.CANCELED), ("second", ExecutionState.RUNNING)]


def test_sharing_tasks_are_notified_once_when_all_have_arrived(system: SeededSystem) -> None:
    cluster = connected_with(system, network_buffers=6)
    sizes = resized(cluster)

    submit(cluster, "a")
    submit(cluster, "b")
    cluster.send(CancelTask(attempt=ExecutionAttemptId("b")))

    assert sizes == [(3,), (3,), (4,)]


def test_messages_to_an_ended_producer_are_dropped_but_requests_are_answered(
    connected: TaskManagerCluster,
) -> None:
    gone = partition_id(ExecutionAttemptId("gone"), 0)
    connected.job_master.send(connected.task_manager, AddCredit(partition_id=gone, subpartition=0, credit=1))
    connected.job_master.send(connected.task_manager, CancelPartitionRequest(partition_id=gone, subpartition=0))

    request = PartitionRequest(partition_id=gone, subpartition=0, credit=1, consumer=connected.job_master.ref)
    connected.job_master.send(connected.task_manager, request)

    assert connected.is_alive(HERE)
    assert connected.job_master.expect(ErrorResponse).partition_not_found


def test_a_failing_task_cancels_the_senders_of_unread_data(connected: TaskManagerCluster) -> None:
    connected.submit("x")
    [name] = connected.tasks()
    task = connected.find(f"{HERE}/{name}")
    stray = BufferResponse(
        partition_id=partition_id(ExecutionAttemptId("stranger"), 0),
        subpartition=3,
        sequence_number=0,
        buffer=batch_ref(),
        backlog=0,
    )

    connected.job_master.send(task, stray)

    assert connected.job_master.expect(CancelPartitionRequest).subpartition == 3
