"""Decides which tasks begin when (Flink's SchedulingStrategy).

A strategy is called when the job begins, when a task's output can be read or is finished, and when tasks restart. It
returns groups: each group is deployed as a whole, as soon as all of its tasks have their slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from flykka.actors.machines.scheduling.topology import Exchange, RegionInput, SchedulingTopology
from flykka.messages.graph.job_graph import InputDependencyConstraint

T = TypeVar("T", bound=Hashable)
Groups = list[tuple[T, ...]]


class SchedulingStrategy(Protocol[T]):
    def start(self) -> Groups[T]: ...

    def data_produced(self, task: T) -> Groups[T]:
        """Return the tasks that begin because the output of this running task can be read."""

    def finished(self, task: T) -> Groups[T]:
        """Return the tasks that begin because this task has finished and its results are complete."""

    def reset(self, tasks: Collection[T]) -> None:
        """Record that a failover of these tasks has begun, so that their results can no longer be read."""

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        """Reset these tasks, and return those that begin at once."""


class EagerSchedulingStrategy(Generic[T]):
    """Begins all tasks at once, and restarts them together (Flink's EagerSchedulingStrategy)."""

    def __init__(self, topology: SchedulingTopology[T]) -> None:
        self._topology = topology

    def start(self) -> Groups[T]:
        return [self._topology.tasks]

    def data_produced(self, task: T) -> Groups[T]:
        return []

    def finished(self, task: T) -> Groups[T]:
        return []

    def reset(self, tasks: Collection[T]) -> None:
        """Do nothing, because no task waits for results."""

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        return [in_order(self._topology, tasks)]


def in_order(topology: SchedulingTopology[T], tasks: Collection[T]) -> tuple[T, ...]:
    ordered = [task for region in sorted(topology.regions_of(tasks)) for task in topology.regions[region]]
    return tuple(task for task in ordered if task in tasks)


class PipelinedRegionSchedulingStrategy(Generic[T]):
    """Begins a region when all its inputs from other regions are complete (Flink's strategy of the same name)."""

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
        """Return no tasks, because pipelined consumers are in the region of their producer."""
        return []

    def finished(self, task: T) -> Groups[T]:
        """Return the regions whose last missing input this task has completed."""
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
        """Let the regions that read results of these tasks wait for new results."""
        for region in self._topology.regions_of(tasks):
            self._scheduled.discard(region)
            for task in self._topology.regions[region]:
                self._unfinish(task)

    def restart(self, tasks: Collection[T]) -> Groups[T]:
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


class LazyFromSourcesSchedulingStrategy(Generic[T]):
    """Begins a task when it has input to read (Flink's LazyFromSourcesSchedulingStrategy).

    A pipelined input can be read as soon as one of its producers runs, a blocking input when all tasks that produce the
    result have finished. The constraint determines whether one readable input is enough.
    """

    def __init__(
        self,
        topology: SchedulingTopology[T],
        constraint: InputDependencyConstraint = InputDependencyConstraint.ANY,
    ) -> None:
        self._topology = topology
        self._enough = any if constraint is InputDependencyConstraint.ANY else all
        self._scheduled: set[T] = set()
        self._producing: set[T] = set()
        self._finished: set[T] = set()
        self._producers_of: Counter[Exchange[T]] = Counter()
        self._unfinished: Counter[Hashable] = Counter()
        self._readers_of: dict[Hashable, list[Exchange[T]]] = {}
        for exchange in topology.exchanges:
            if exchange.is_blocking:
                self._unfinished[exchange.result] += len(exchange.producers)
                self._readers_of.setdefault(exchange.result, []).append(exchange)

    def start(self) -> Groups[T]:
        return self._schedule(self._topology.tasks)

    def data_produced(self, task: T) -> Groups[T]:
        """Return the consumers of the task that now have enough inputs and did not before."""
        if task in self._producing:
            return []
        self._producing.add(task)
        first: list[T] = []
        for exchange in self._topology.produced(task):
            self._producers_of[exchange] += 1
            if not exchange.is_blocking and self._producers_of[exchange] == 1:
                first += exchange.consumers
        return self._schedule(first)

    def finished(self, task: T) -> Groups[T]:
        if task in self._finished:
            return []
        self._finished.add(task)
        ready: list[T] = []
        for exchange in self._topology.produced(task):
            if exchange.is_blocking:
                self._unfinished[exchange.result] -= 1
                if self._unfinished[exchange.result] == 0:
                    ready += (reader for each in self._readers_of[exchange.result] for reader in each.consumers)
        return self._schedule(ready)

    def reset(self, tasks: Collection[T]) -> None:
        for task in tasks:
            self._scheduled.discard(task)
            for exchange in self._topology.produced(task):
                self._producers_of[exchange] -= task in self._producing
                if exchange.is_blocking:
                    self._unfinished[exchange.result] += task in self._finished
            self._producing.discard(task)
            self._finished.discard(task)

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        self.reset(tasks)
        return self._schedule(in_order(self._topology, tasks))

    def consumable(self, task: T) -> tuple[bool, ...]:
        return tuple(map(self._is_consumable, self._topology.consumed(task)))

    def is_satisfied(self, task: T) -> bool:
        """Return True if the task has enough inputs to begin. A source needs no input."""
        inputs = self.consumable(task)
        return not inputs or self._enough(inputs)

    def _is_consumable(self, exchange: Exchange[T]) -> bool:
        if exchange.is_blocking:
            return self._unfinished[exchange.result] == 0
        return self._producers_of[exchange] > 0

    def _schedule(self, tasks: Iterable[T]) -> Groups[T]:
        groups: Groups[T] = []
        for task in tasks:
            if task not in self._scheduled and self.is_satisfied(task):
                self._scheduled.add(task)
                groups.append((task,))
        return groups
