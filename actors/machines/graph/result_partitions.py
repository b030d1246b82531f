"""The results of a job that outlive their producers: where they are stored, which are lost, and when they are released.

Follows Flink's JobMasterPartitionTracker and PartitionReleaseStrategy. The TaskManager of the attempt that produced a
result stores it, and releases it when it has no more readers or when its producer restarts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_job_vertex import ExecutionJobVertex
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.restart.failure_handler import PartitionAvailability
from flykka.actors.machines.scheduling.topology import Exchange, Partition, SchedulingTopology
from flykka.messages.tasks.task import ReleasePartitions
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, ResultPartitionId, TaskManagerId
from flykka.messages.wire.ids import partition_id as partition_id_of
from flykka.messages.wire.ref import Ref

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    partition: Partition[Subtask]
    at: TaskManagerId
    task_manager: Ref


class ResultPartitions:
    """The result partitions of one job. If all its exchanges are pipelined, it has no such results."""

    def __init__(
        self,
        job_id: JobId,
        topology: SchedulingTopology[Subtask],
        vertices: Mapping[JobVertexId, ExecutionJobVertex],
    ) -> None:
        self._job_id = job_id
        self.availability: PartitionAvailability[Subtask] = PartitionAvailability()
        self._vertices = vertices
        self._release = RegionPartitionReleaseStrategy(topology)
        self._made_by: dict[Subtask, dict[Partition[Subtask], None]] = {}
        for exchange in topology.exchanges:
            for partition in exchange.partitions if exchange.is_blocking else ():
                self._made_by.setdefault(partition.producer, {})[partition] = None
        self._kept: dict[ResultPartitionId, _Kept] = {}
        self._kept_at: dict[TaskManagerId, dict[ResultPartitionId, None]] = {}

    def finished(self, task: Subtask) -> list[Tell[Ref]]:
        execution = self._execution(task)
        for partition in self._made_by.get(task, ()):
            assert execution.slot is not None, f"{execution.attempt} has finished without a slot"
            stored = _Kept(
                partition=partition, at=execution.slot.task_manager_id, task_manager=execution.slot.task_manager
            )
            self._kept[_id_of(partition, execution.attempt)] = stored
            self._kept_at.setdefault(stored.at, {})[_id_of(partition, execution.attempt)] = None
        unneeded = self._release.finished(task)
        self.availability.lose(unneeded)
        return self._release_at_task_managers(unneeded)

    def release_produced(self, task: Subtask) -> list[Tell[Ref]]:
        """Release the results of a task that gets a new attempt, which will produce them again."""
        self._release.unfinished(task)
        partitions = self._made_by.get(task, {})
        self.availability.produced_again(partitions)
        return self._release_at_task_managers(partitions)

    def lose_task_manager(self, task_manager: TaskManagerId) -> tuple[Subtask, ...]:
        partitions = [self._kept.pop(partition_id).partition for partition_id in self._kept_at.pop(task_manager, {})]
        self.availability.lose(partitions)
        return tuple(dict.fromkeys(partition.producer for partition in partitions))

    def lose(self, partition_id: ResultPartitionId) -> None:
        """Mark a partition that a reader did not find as lost. Ignored if its task has restarted."""
        stored = self._kept.get(partition_id)
        if stored is not None:
            self.availability.lose([stored.partition])

    def _release_at_task_managers(self, partitions: Iterable[Partition[Subtask]]) -> list[Tell[Ref]]:
        by_task_manager: dict[Ref, list[ResultPartitionId]] = {}
        for partition in partitions:
            partition_id = _id_of(partition, self._execution(partition.producer).attempt)
            stored = self._kept.pop(partition_id, None)
            if stored is not None:
                del self._kept_at[stored.at][partition_id]
                by_task_manager.setdefault(stored.task_manager, []).append(partition_id)
        return [
            Tell(to=task_manager, message=ReleasePartitions(job_id=self._job_id, partition_ids=tuple(ids)))
            for task_manager, ids in by_task_manager.items()
        ]

    def _execution(self, task: Subtask) -> Execution:
        vertex_id, subtask = task
        return self._vertices[vertex_id].subtasks[subtask].execution

    def check(self) -> None:
        assert sorted(self._kept) == sorted(each for by_id in self._kept_at.values() for each in by_id)


def _id_of(partition: Partition[Subtask], attempt: ExecutionAttemptId) -> ResultPartitionId:
    match partition.result:
        case (_, int(output)):
            return partition_id_of(attempt, output)
        case unknown:
            raise AssertionError(
                f"the id of a result consists of a vertex and the number of an output, not {unknown!r}"
            )


class RegionPartitionReleaseStrategy(Generic[T]):
    """Decides when a result that outlives its producer is released (Flink's RegionPartitionReleaseStrategy).

    A result is released when all regions that read it have finished completely: until then a finished task may restart
    with its region and read the result again. The class counts the unfinished tasks of each region, and the regions
    that still read each exchange.
    """

    def __init__(self, topology: SchedulingTopology[T]) -> None:
        self._topology = topology
        self._finished: set[T] = set()
        self._tasks_left = [len(region) for region in topology.regions]
        self._reads: list[dict[Exchange[T], None]] = [{} for _ in topology.regions]
        self._readers_left: dict[Exchange[T], int] = {}
        for exchange in topology.exchanges:
            if exchange.is_blocking:
                readers = topology.regions_of(exchange.consumers)
                self._readers_left[exchange] = len(readers)
                for region in readers:
                    self._reads[region][exchange] = None

    def finished(self, task: T) -> tuple[Partition[T], ...]:
        if task in self._finished:
            return ()
        self._finished.add(task)
        region = self._topology.region_of[task]
        self._tasks_left[region] -= 1
        if self._tasks_left[region] > 0:
            return ()
        return tuple(partition for exchange in self._reads[region] for partition in self._read(exchange))

    def unfinished(self, task: T) -> None:
        if task not in self._finished:
            return
        self._finished.remove(task)
        region = self._topology.region_of[task]
        if self._tasks_left[region] == 0:
            for exchange in self._reads[region]:
                self._readers_left[exchange] += 1
        self._tasks_left[region] += 1

    def _read(self, exchange: Exchange[T]) -> tuple[Partition[T], ...]:
        self._readers_left[exchange] -= 1
        return tuple(exchange.partitions) if self._readers_left[exchange] == 0 else ()
