"""Decides which tasks restart when some have failed (Flink's FailoverStrategy).

The region of a task that has failed restarts as a whole: nobody can go on with half of what was exchanged. With it
start the regions that made what it reads, where that is lost, and the regions that read what it makes, for it may not
make the same again; and with each of these again those that it reads from and that read it.

Where a job accepts that rows are lost, what is before the task goes on: only the task and all behind it restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from flykka.actors.machines.scheduling.topology import Exchange, Partition, SchedulingTopology
from flykka.messages.graph.job_graph import FailoverStrategyKind

T = TypeVar("T", bound=Hashable)


class FailoverStrategy(Protocol[T]):
    """Asked when tasks have failed."""

    @property
    def all_tasks(self) -> frozenset[T]:
        """Every task of the job."""

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        """The tasks that restart when these have failed, themselves included."""


class PartitionAvailability(Generic[T]):
    """Availability of results that outlive their producers: some are lost with their TaskManager, or released."""

    def __init__(self) -> None:
        self._gone: set[Partition[T]] = set()

    def is_available(self, partition: Partition[T]) -> bool:
        """True if the partition can be read, or will be when its producer has finished."""
        return partition not in self._gone

    def lose(self, partitions: Iterable[Partition[T]]) -> None:
        self._gone.update(partitions)

    def produced_again(self, partitions: Iterable[Partition[T]]) -> None:
        self._gone.difference_update(partitions)


class RestartAllFailoverStrategy(Generic[T]):
    """All tasks, whatever has failed (Flink's RestartAllFailoverStrategy)."""

    def __init__(self, topology: SchedulingTopology[T]) -> None:
        self.all_tasks = frozenset(topology.tasks)

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        return self.all_tasks


class RestartPipelinedRegionFailoverStrategy(Generic[T]):
    """Regions, as said above (Flink's RestartPipelinedRegionFailoverStrategy)."""

    def __init__(self, topology: SchedulingTopology[T], availability: PartitionAvailability[T]) -> None:
        self.all_tasks = frozenset(topology.tasks)
        self._topology = topology
        self._availability = availability

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        regions = dict.fromkeys(self._topology.regions_of(failed))
        ahead = deque(regions)
        # What many read, or many write, is looked at once from either side.
        read: set[Exchange[T]] = set()
        written: set[Exchange[T]] = set()
        while ahead:
            for task in self._topology.regions[ahead.popleft()]:
                for found in self._beside(task, read, written):
                    if found not in regions:
                        regions[found] = None
                        ahead.append(found)
        return frozenset(task for region in regions for task in self._topology.regions[region])

    def _beside(self, task: T, read: set[Exchange[T]], written: set[Exchange[T]]) -> Iterable[int]:
        for exchange in self._topology.consumed(task):
            if exchange.is_blocking and exchange not in read:
                read.add(exchange)
                yield from self._topology.regions_of(self._lost_producers(exchange))
        for exchange in self._topology.produced(task):
            if exchange.is_blocking and exchange not in written:
                written.add(exchange)
                yield from self._topology.regions_of(exchange.consumers)

    def _lost_producers(self, exchange: Exchange[T]) -> Iterable[T]:
        return (each.producer for each in exchange.partitions if not self._availability.is_available(each))


class ApproximateLocalRecoveryFailoverStrategy(Generic[T]):
    """The tasks that have failed and those behind them, whose inputs reconnect to what runs on before them.

    What Flink's regions come to where all partitions are PIPELINED_APPROXIMATE. One that has finished sends nothing
    to the next reader: where such a task is before them, their regions restart.
    """

    def __init__(
        self, topology: SchedulingTopology[T], regional: FailoverStrategy[T], has_finished: Callable[[T], bool]
    ) -> None:
        self.all_tasks = frozenset(topology.tasks)
        self._topology = topology
        self._regional = regional
        self._has_finished = has_finished

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        """All that is behind them, themselves included."""
        found = dict.fromkeys(failed)
        ahead = deque(found)
        while ahead:
            for exchange in self._topology.produced(ahead.popleft()):
                fresh = [task for task in exchange.consumers if task not in found]
                found.update(dict.fromkeys(fresh))
                ahead.extend(fresh)
        producers = (
            task for each in found for exchange in self._topology.consumed(each) for task in exchange.producers
        )
        if any(task not in found and self._has_finished(task) for task in producers):
            return self._regional.tasks_to_restart(failed)
        return frozenset(found)


def failover_strategy(
    kind: FailoverStrategyKind, topology: SchedulingTopology[T], availability: PartitionAvailability[T]
) -> FailoverStrategy[T]:
    if kind is FailoverStrategyKind.FULL:
        return RestartAllFailoverStrategy(topology)
    return RestartPipelinedRegionFailoverStrategy(topology, availability)
