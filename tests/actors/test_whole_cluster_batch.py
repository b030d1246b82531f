"""A whole cluster with a batch job: lost results are produced again, and each row is counted once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.messages.attempt.answers import EngineFailed, StageResult
from flykka.messages.attempt.commands import CommitCheckpoint, ProcessBatch, SnapshotState
from flykka.messages.control.job import JobStatus, SubmitJob
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FailoverStrategyKind,
    FiringMode,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
    JobType,
    JobVertex,
    OperatorKind,
    ResultPartitionType,
    ScheduleMode,
    ShipStrategy,
)
from flykka.messages.tasks.exchange import BufferResponse
from flykka.messages.tasks.task import KeepPartitions, ReleasePartitions, TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, ResultPartitionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.keyed_cluster import ALL_ROWS, KeyedEngine, KeyedRows, Reader, StagedEngine
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.whole_cluster import WholeCluster, is_a, seeds

pytestmark = pytest.mark.slow


def whole(made: JobVertex) -> JobVertex:
    """Return the vertex with inputs that are read only when finished."""
    inputs = (replace(edge, result_partition_type=ResultPartitionType.BLOCKING) for edge in made.inputs)
    return replace(made, inputs=tuple(inputs))


def batch_job(folder: Path, sources: int = 2, middles: int = 2) -> JobGraph:
    """Return a job of readers of splits, operators that forward rows, and sinks that publish. Each stage starts after
    the previous one has finished.
    """
    keyed = vertex("keyed", 2, reads=("middle",), ship_strategy=ShipStrategy.HASH)
    last = whole(replace(keyed, firing_mode=FiringMode.ON_CHECKPOINT))
    graph = graph_of(
        vertex("source", sources, outputs=1),
        whole(vertex("middle", middles, reads=("source",), outputs=1, ship_strategy=ShipStrategy.HASH)),
        replace(last, operators=tuple(replace(operator, kind=OperatorKind.SINK) for operator in last.operators)),
        restart=FixedDelayRestartStrategyConfiguration(delay_ms=100),
        failover=FailoverStrategyKind.REGION,
    )
    return replace(
        graph,
        job_type=JobType.BATCH,
        schedule_mode=ScheduleMode.PIPELINED_REGION,
        checkpointing=CheckpointingSettings(directory=str(folder)),
    )


class Rows(KeyedRows):
    """A data plane that loses a partition before the `count`th batch that the subtasks of a vertex process.

    The lost partition is the first one that the subtask reads. Without a vertex no partition is lost.
    """

    def __init__(self, vertex: str = "", count: int = 1) -> None:
        super().__init__()
        self.gone: ResultPartitionId | None = None
        self.kept: set[ResultPartitionId] = set()
        self.freed: set[ResultPartitionId] = set()
        self._vertex, self._left = vertex, count

    def look_for(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Check the inputs of a reader before a batch. Raises `LostBatchError` if an input is lost."""
        read = [channel.partition_id for gate in descriptor.inputs for channel in gate.channels]
        self._left -= descriptor.vertex.name == self._vertex
        if self._left == 0 and self.gone is None:
            self.gone = read[0]
        if self.gone in read:
            raise LostBatchError(self.gone)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> StagedEngine:
        if not descriptor.inputs:
            return Reader(descriptor, self.durable)
        return (Middle if descriptor.outputs else Last)(descriptor, self)

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        self.freed.update(partition_ids)


class LostBatchError(Exception):
    def __init__(self, lost_partition: ResultPartitionId) -> None:
        super().__init__("gone")
        self.lost_partition = lost_partition


class Middle(StagedEngine):
    def __init__(self, descriptor: TaskDeploymentDescriptor, data: Rows) -> None:
        super().__init__(descriptor, data.durable)
        self._data = data

    def process_batch(self, command: ProcessBatch) -> StageResult:
        self._data.look_for(self._descriptor)
        return self.sent(command.stage, self.batches.rows[command.batch.batch_id])


class Last(KeyedEngine):
    def __init__(self, descriptor: TaskDeploymentDescriptor, data: Rows) -> None:
        super().__init__(descriptor, data.durable)
        self._data = data

    def process_batch(self, command: ProcessBatch) -> StageResult:
        self._data.look_for(self._descriptor)
        return super().process_batch(command)


def run_batch_job(system: SeededSystem, data: Rows, job: JobGraph, slots: int = 2) -> WholeCluster:
    def note(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        if isinstance(message, KeepPartitions):
            data.kept.update(finished.descriptor.partition_id for finished in message.partitions)

    system.add_delivery_hook(note)
    stage = WholeCluster(system, job.checkpointing.directory, data, slots=slots)
    stage.client.send(stage.job_manager, SubmitJob(job_graph=job, client=stage.client.ref))
    stage.run(seconds=60)
    return stage


COUNTS = [1, *(pytest.param(count, marks=pytest.mark.long) for count in (2, 30))]
NOBODY_TWICE = {"source_0": 0, "source_1": 0, "middle_0": 0, "middle_1": 0, "keyed_0": 0, "keyed_1": 0}


@pytest.mark.parametrize("seed", seeds(3))
def test_retained_results_are_freed_with_their_last_reader(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        data = Rows()
        stage = run_batch_job(system, data, batch_job(tmp_path))

    assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert stage.attempt_numbers() == NOBODY_TWICE
    assert data.durable.rows() == ALL_ROWS
    assert len(data.kept) == 4
    assert data.freed >= data.kept


@pytest.mark.parametrize("count", COUNTS)
def test_only_the_result_whose_rows_are_lost_is_produced_again(count: int, tmp_path: Path) -> None:
    with SeededSystem(count) as system:
        data = Rows("middle", count)
        stage = run_batch_job(system, data, batch_job(tmp_path))

    assert data.gone is not None
    assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
    # The downstream tasks had not started.
    assert stage.attempt_numbers() == NOBODY_TWICE | {"source_0": 1, "middle_0": 1, "middle_1": 1}
    assert data.durable.rows() == ALL_ROWS


@pytest.mark.parametrize("count", COUNTS)
def test_freed_inputs_of_a_lost_result_are_produced_again_first(count: int, tmp_path: Path) -> None:
    with SeededSystem(count) as system:
        data = Rows("keyed", count)
        stage = run_batch_job(system, data, batch_job(tmp_path))

    assert data.gone is not None
    assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert stage.attempt_numbers() == dict.fromkeys(NOBODY_TWICE, 1)
    assert data.durable.rows() == ALL_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("task_manager", ["task-manager-1", pytest.param("task-manager-2", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("moment", "count"),
    [
        (KeepPartitions, 1),
        pytest.param(KeepPartitions, 2, marks=pytest.mark.long),
        pytest.param(BufferResponse, 1, marks=pytest.mark.long),
        (BufferResponse, 20),
        pytest.param(KeepPartitions, 3, marks=pytest.mark.long),
        (ReleasePartitions, 1),
        pytest.param(KeepPartitions, 4, marks=pytest.mark.long),
        pytest.param(BufferResponse, 60, marks=pytest.mark.long),
        (SnapshotState, 1),
        pytest.param(SnapshotState, 2, marks=pytest.mark.long),
        (CommitCheckpoint, 1),
        pytest.param(CommitCheckpoint, 2, marks=pytest.mark.long),
    ],
)
def test_results_of_a_killed_task_manager_are_produced_again(
    moment: type[Message], count: int, task_manager: str, tmp_path: Path
) -> None:
    with SeededSystem(count) as system:
        kill = kill_when(system, f"/user/{task_manager}", is_a(moment), count)
        data = Rows()
        stage = run_batch_job(system, data, batch_job(tmp_path))

    assert kill.done
    assert stage.statuses()[-1] is JobStatus.FINISHED
    assert JobStatus.FAILING not in stage.statuses()
    assert data.durable.rows() == ALL_ROWS
    assert data.released == [JobId("job")]


@pytest.mark.parametrize("seed", seeds(3))
def test_a_batch_job_runs_in_fewer_slots_than_tasks(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        data = Rows()
        stage = run_batch_job(system, data, batch_job(tmp_path, sources=3, middles=5), slots=1)

    assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert data.durable.rows() == ALL_ROWS
