"""Decides when a result that outlives its producer is released (Flink's RegionPartitionReleaseStrategy).

It may go when all regions that read it have finished as a whole: a task of one that has finished may restart with
its region, and reads it again then.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from flykka.actors.machines.scheduling.topology import Exchange, Partition, SchedulingTopology

T = TypeVar("T", bound=Hashable)


class RegionPartitionReleaseStrategy(Generic[T]):
    """Counts the tasks of each region that have not finished, and the regions that still read each exchange."""

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
        """The task has finished: the partitions that may go because of it."""
        if task in self._finished:
            return ()
        self._finished.add(task)
        region = self._topology.region_of[task]
        self._tasks_left[region] -= 1
        if self._tasks_left[region] > 0:
            return ()
        return tuple(partition for exchange in self._reads[region] for partition in self._read(exchange))

    def unfinished(self, task: T) -> None:
        """The task restarts."""
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
