"""Results that outlive their Tasks at a TaskManager can be read repeatedly, and are released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import EngineFailed, StageResult
from flykka.messages.attempt.commands import ReadSplits, StageOutput
from flykka.messages.control.registration import DisconnectJobMaster
from flykka.messages.graph.job_graph import JobType, OperatorKind, ResultPartitionType, ShipStrategy
from flykka.messages.tasks.exchange import (
    AddCredit,
    BatchRef,
    Buffer,
    BufferResponse,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    PartitionRequest,
    Watermark,
)
from flykka.messages.tasks.source import AddSplits, IndexRangeSplit, NoMoreSplits
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    InputChannelDescriptor,
    InputGateDescriptor,
    ReleasePartitions,
    ResultPartitionDescriptor,
    SubmitTask,
    TaskDeploymentDescriptor,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import (
    BatchId,
    ExecutionAttemptId,
    JobId,
    OperatorId,
    ResultPartitionId,
    SplitId,
    partition_id,
)
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.data_plane import NoData
from tests.actors.machines.scheduling.descriptors import SOURCE, descriptor
from tests.actors.peer import Probe
from tests.actors.task_manager_cluster import JOB, TaskManagerCluster, connect

PRODUCER = ExecutionAttemptId("producer")
KEPT = partition_id(PRODUCER, 0)
MAX = 2**63 - 1
BATCHES = tuple(BatchRef(batch_id=BatchId(name), rows=1, size_bytes=8) for name in "ab")
WHOLE: list[Buffer] = [*BATCHES, Watermark(timestamp_ms=MAX), EndOfData(), EndOfPartition()]


class TwoBatches(EmptyEngine):
    def read_splits(self, command: ReadSplits) -> StageResult:
        return StageResult(stage=command.stage, outputs=tuple(StageOutput(output=0, batch=batch) for batch in BATCHES))


class Data(NoData):
    def __init__(self) -> None:
        super().__init__()
        self.partitions: list[ResultPartitionId] = []

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> TwoBatches:
        return TwoBatches(descriptor)

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        assert job_id == JOB
        self.partitions += partition_ids


@pytest.fixture
def data() -> Data:
    return Data()


@pytest.fixture
def cluster(system: SeededSystem, data: Data) -> TaskManagerCluster:
    made = TaskManagerCluster(system, data_plane=data)
    connect(made)
    return made


def submit(cluster: TaskManagerCluster) -> None:
    output = ResultPartitionDescriptor(
        partition_id=KEPT,
        output=0,
        subpartitions=1,
        ship_strategy=ShipStrategy.REBALANCE,
        max_parallelism=128,
        partition_type=ResultPartitionType.BLOCKING,
    )
    deployed = replace(descriptor(PRODUCER), outputs=(output,), job_type=JobType.BATCH)
    cluster.send(SubmitTask(descriptor=deployed, job_master=cluster.job_master.ref))


def finish_producer(cluster: TaskManagerCluster) -> None:
    submit(cluster)
    split = IndexRangeSplit(split_id=SplitId("all"), rows=2, start=0)
    cluster.send(AddSplits(attempt=PRODUCER, operator_id=SOURCE, splits=(split,)))
    cluster.send(NoMoreSplits(attempt=PRODUCER, operator_id=SOURCE))


def ask(cluster: TaskManagerCluster, reader: Probe, credit: int = 2) -> None:
    request = PartitionRequest(partition_id=KEPT, subpartition=0, credit=credit, consumer=reader.ref)
    reader.send(cluster.task_manager, request)


def buffers_received(reader: Probe) -> list[Buffer]:
    return [response.buffer for response in reader.received(BufferResponse)]


def test_a_result_can_be_read_repeatedly_after_its_task_has_ended(cluster: TaskManagerCluster) -> None:
    finish_producer(cluster)
    first, second = Probe(cluster.system, "first"), Probe(cluster.system, "second")

    ask(cluster, first)
    ask(cluster, second)

    assert (PRODUCER, ExecutionState.FINISHED) in cluster.states()
    assert cluster.tasks() == []
    assert (buffers_received(first), buffers_received(second)) == (WHOLE, WHOLE)


def test_unfinished_results_are_not_readable(cluster: TaskManagerCluster) -> None:
    submit(cluster)
    reader = Probe(cluster.system, "reader")

    ask(cluster, reader)

    (answer,) = reader.received(ErrorResponse)
    assert answer.partition_not_found
    assert answer.cause.lost_partition == KEPT
    assert "not finished" in answer.cause.message


def test_a_released_partition_is_freed_and_not_found(cluster: TaskManagerCluster, data: Data) -> None:
    finish_producer(cluster)
    reader = Probe(cluster.system, "reader")

    cluster.send(ReleasePartitions(job_id=JOB, partition_ids=(KEPT,)))
    ask(cluster, reader)

    (answer,) = reader.received(ErrorResponse)
    assert answer.partition_not_found
    assert data.partitions == [KEPT]


def test_retained_partitions_are_released_with_their_job_master(cluster: TaskManagerCluster, data: Data) -> None:
    finish_producer(cluster)

    cluster.send(DisconnectJobMaster(job_id=JOB))

    assert data.partitions == [KEPT]


def test_a_cancelled_task_leaves_no_partition(cluster: TaskManagerCluster, data: Data) -> None:
    submit(cluster)

    cluster.send(CancelTask(attempt=PRODUCER))

    assert cluster.states()[-1] == (PRODUCER, ExecutionState.CANCELED)
    assert data.partitions == [KEPT]


def test_a_killed_task_leaves_no_data(cluster: TaskManagerCluster, data: Data) -> None:
    submit(cluster)
    (name,) = cluster.tasks()

    task = cluster.system.find(f"{cluster.task_manager.path}/{name}")
    assert task is not None
    cluster.system.kill(task)
    cluster.system.run_until_idle()

    assert data.partitions == [KEPT]


def test_credits_belong_to_the_reader_that_granted_them(cluster: TaskManagerCluster) -> None:
    finish_producer(cluster)
    gone, reader = Probe(cluster.system, "gone"), Probe(cluster.system, "reader")
    ask(cluster, gone, credit=1)
    ask(cluster, reader, credit=1)
    before = buffers_received(reader)

    reader.send(cluster.task_manager, AddCredit(partition_id=KEPT, subpartition=0, credit=1))

    assert before == WHOLE[:1]
    assert buffers_received(reader) == WHOLE[1:]
    assert buffers_received(gone) == WHOLE[:1]


def test_a_reader_fails_with_the_task_manager_that_holds_its_input(cluster: TaskManagerCluster) -> None:
    keeper = Probe(cluster.system, "keeper")
    channel = InputChannelDescriptor(partition_id=KEPT, subpartition=0, task_manager=keeper.ref)
    gate = InputGateDescriptor(gate=0, channels=(channel,), consumed_partition_type=ResultPartitionType.BLOCKING)
    made = descriptor("reader")
    (operator,) = made.vertex.operators
    sink = replace(operator, kind=OperatorKind.SINK, operator_id=OperatorId("sink"))
    reader = replace(made, vertex=replace(made.vertex, operators=(sink,)), inputs=(gate,), job_type=JobType.BATCH)
    cluster.send(SubmitTask(descriptor=reader, job_master=cluster.job_master.ref))
    request = keeper.expect(PartitionRequest)
    keeper.send(
        request.consumer,
        BufferResponse(partition_id=KEPT, subpartition=0, sequence_number=0, buffer=WHOLE[-3], backlog=0),
    )

    cluster.system.kill(keeper.ref)
    cluster.system.run_until_idle()

    state = cluster.job_master.received(UpdateTaskExecutionState)[-1].state
    assert state.failure is not None
    assert (state.state, state.failure.lost_partition) == (ExecutionState.FAILED, KEPT)
