"""A task begins when there is something for it to read (Flink's LazyFromSourcesSchedulingStrategy).

An input that is read while it is made can be read as soon as one of its producers runs, a blocking one when all tasks
that make the result have finished. Whether one such input is enough says the constraint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

from flykka.actors.machines.scheduling.scheduling_strategy import Groups, in_order
from flykka.actors.machines.scheduling.topology import Exchange, SchedulingTopology
from flykka.messages.graph.job_graph import InputDependencyConstraint

T = TypeVar("T", bound=Hashable)


class LazyFromSourcesSchedulingStrategy(Generic[T]):
    """Counts who produces and who has finished, by exchange and by result."""

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
        """The consumers of the task that can read enough now, and could not before."""
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
        """The tasks that can read what this task has made, now that all of it is whole."""
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
        """Consumers of these tasks wait for their results again."""
        for task in tasks:
            self._scheduled.discard(task)
            for exchange in self._topology.produced(task):
                self._producers_of[exchange] -= task in self._producing
                if exchange.is_blocking:
                    self._unfinished[exchange.result] += task in self._finished
            self._producing.discard(task)
            self._finished.discard(task)

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        """The tasks that can read enough; the others follow when they can."""
        self.reset(tasks)
        return self._schedule(in_order(self._topology, tasks))

    def consumable(self, task: T) -> tuple[bool, ...]:
        """For each input of the task, whether it can be read."""
        return tuple(map(self._is_consumable, self._topology.consumed(task)))

    def is_satisfied(self, task: T) -> bool:
        """True if the task has enough to read to begin; a source reads nothing."""
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
