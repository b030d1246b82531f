"""A region begins when all that it reads from other regions is whole (Flink's PipelinedRegionSchedulingStrategy)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

from flykka.actors.machines.scheduling.scheduling_strategy import Groups
from flykka.actors.machines.scheduling.topology import RegionInput, SchedulingTopology

T = TypeVar("T", bound=Hashable)


class PipelinedRegionSchedulingStrategy(Generic[T]):
    """Counts the producers that have not finished, and so the inputs that each region waits for."""

    def __init__(self, topology: SchedulingTopology[T]) -> None:
        self._topology = topology
        self._inputs_of: dict[T, list[RegionInput[T]]] = {}
        self._unfinished: dict[RegionInput[T], int] = {}
        self._waits_for = [0] * len(topology.regions)
        self._scheduled: set[int] = set()
        self._finished: set[T] = set()
        for region_input in topology.region_inputs:
            self._unfinished[region_input] = len(region_input.producers)
            for task in region_input.producers:
                self._inputs_of.setdefault(task, []).append(region_input)
            for region in region_input.regions:
                self._waits_for[region] += 1

    def start(self) -> Groups[T]:
        return self._schedule(range(len(self._topology.regions)))

    def data_produced(self, task: T) -> Groups[T]:
        """Nothing begins: pipelined consumers are in the region of their producer."""
        return []

    def finished(self, task: T) -> Groups[T]:
        """The regions that waited for this task last."""
        if task in self._finished:
            return []
        self._finished.add(task)
        ready: list[int] = []
        for region_input in self._inputs_of.get(task, ()):
            self._unfinished[region_input] -= 1
            if self._unfinished[region_input] == 0:
                for region in region_input.regions:
                    self._waits_for[region] -= 1
                    ready.append(region)
        return self._schedule(dict.fromkeys(ready))

    def reset(self, tasks: Collection[T]) -> None:
        """The regions that read what these have made wait for it again."""
        for region in self._topology.regions_of(tasks):
            self._scheduled.discard(region)
            for task in self._topology.regions[region]:
                self._unfinish(task)

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        """The regions whose inputs are whole; the others follow when they are."""
        self.reset(tasks)
        return self._schedule(sorted(self._topology.regions_of(tasks)))

    def _unfinish(self, task: T) -> None:
        if task not in self._finished:
            return
        self._finished.remove(task)
        for region_input in self._inputs_of.get(task, ()):
            if self._unfinished[region_input] == 0:
                for region in region_input.regions:
                    self._waits_for[region] += 1
            self._unfinished[region_input] += 1

    def _schedule(self, regions: Iterable[int]) -> Groups[T]:
        ready = [each for each in regions if self._waits_for[each] == 0 and each not in self._scheduled]
        self._scheduled.update(ready)
        return [self._topology.regions[region] for region in ready]
