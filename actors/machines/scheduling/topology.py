"""The topology of tasks and their exchanges, with pipelined regions (Flink's SchedulingTopology).

Tasks that are connected, directly or not, by pipelined exchanges form a pipelined region, which is deployed together
and fails together. Regions that depend on each other in a cycle are merged, and so is a whole job whose tasks have to
share slots by co-location. The topology is built once, so that a query costs only as much as its result.

A task is any hashable value. Not here: slots, states, and which tasks restart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Generic[T]):
    """The partition that one task produces for the readers of one result."""

    producer: T
    result: Hashable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange(Generic[T]):
    """A group of partitions of one `result`: each of the `consumers` reads a partition of each of the `producers`.

    A result of a point-wise edge has many groups, and each producer is in one of them.
    """

    result: Hashable
    producers: tuple[T, ...]
    consumers: tuple[T, ...]
    is_blocking: bool

    @property
    def partitions(self) -> Iterator[Partition[T]]:
        return (Partition(producer=producer, result=self.result) for producer in self.producers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegionInput(Generic[T]):
    """The regions that wait until all these tasks of other regions have finished, to read their blocking results."""

    producers: tuple[T, ...]
    regions: tuple[int, ...]


class SchedulingTopology(Generic[T]):
    """The tasks of one job in topological order, its exchanges, and its regions in the order of their first tasks."""

    def __init__(self, tasks: Sequence[T], exchanges: Sequence[Exchange[T]], *, has_co_location: bool = False) -> None:
        self.tasks = tuple(tasks)
        self.exchanges = tuple(exchanges)
        self.regions = (
            (self.tasks,) if has_co_location else without_cycles(pipelined_regions(tasks, exchanges), exchanges)
        )
        self.region_of = {task: number for number, region in enumerate(self.regions) for task in region}
        self._consumed = _by_task((task, each) for each in exchanges for task in each.consumers)
        self._produced = _by_task((task, each) for each in exchanges for task in each.producers)
        self.region_inputs = tuple(self._region_inputs())

    def consumed(self, task: T) -> Sequence[Exchange[T]]:
        return self._consumed.get(task, ())

    def produced(self, task: T) -> Sequence[Exchange[T]]:
        return self._produced.get(task, ())

    def regions_of(self, tasks: Iterable[T]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.region_of[task] for task in tasks))

    def _region_inputs(self) -> Iterator[RegionInput[T]]:
        for exchange in self.exchanges:
            if not exchange.is_blocking:
                continue
            inside = set(self.regions_of(exchange.producers))
            consumers = self.regions_of(exchange.consumers)
            outside = tuple(region for region in consumers if region not in inside)
            if outside:
                yield RegionInput(producers=exchange.producers, regions=outside)
            for region in (region for region in consumers if region in inside):
                others = tuple(each for each in exchange.producers if self.region_of[each] != region)
                if others:
                    yield RegionInput(producers=others, regions=(region,))


def pipelined_regions(tasks: Sequence[T], exchanges: Iterable[Exchange[T]]) -> tuple[tuple[T, ...], ...]:
    """Return the groups of tasks that are connected, directly or not, by pipelined exchanges."""
    root = {task: task for task in tasks}

    def find(task: T) -> T:
        while root[task] != task:
            root[task] = root[root[task]]
            task = root[task]
        return task

    for exchange in exchanges:
        if not exchange.is_blocking:
            first = find(exchange.producers[0])
            for task in (*exchange.producers[1:], *exchange.consumers):
                root[find(task)] = first
    return _grouped((find(task), task) for task in tasks)


def without_cycles(regions: tuple[tuple[T, ...], ...], exchanges: Iterable[Exchange[T]]) -> tuple[tuple[T, ...], ...]:
    """Merge regions that wait for each other in a cycle (as Flink since 1.11): otherwise they could not begin."""
    blocking = [exchange for exchange in exchanges if exchange.is_blocking]
    region_of = {task: number for number, region in enumerate(regions) for task in region}
    # Exchanges are nodes too, because edges from each producer to each consumer would be too many.
    leads_to: dict[int, list[int]] = {number: [] for number in range(len(regions))}
    for node, exchange in enumerate(blocking, start=len(regions)):
        for region in dict.fromkeys(region_of[task] for task in exchange.producers):
            leads_to[region].append(node)
        leads_to[node] = list(dict.fromkeys(region_of[task] for task in exchange.consumers))
    circle_of = _strongly_connected(leads_to)
    return _grouped((circle_of[number], task) for number, region in enumerate(regions) for task in region)


def _strongly_connected(leads_to: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return for each node a representative of its strongly connected component (Tarjan's algorithm)."""
    reached: dict[int, int] = {}
    lowest: dict[int, int] = {}
    circle_of: dict[int, int] = {}
    open_nodes: list[int] = []
    for start in leads_to:
        if start in reached:
            continue
        path = [(start, iter(leads_to[start]))]
        reached[start] = lowest[start] = len(reached)
        open_nodes.append(start)
        while path:
            node, ahead = path[-1]
            following = next(ahead, None)
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == reached[node]:
                    while node not in circle_of:
                        circle_of[open_nodes.pop()] = node
            elif following not in reached:
                reached[following] = lowest[following] = len(reached)
                open_nodes.append(following)
                path.append((following, iter(leads_to[following])))
            elif following not in circle_of:
                lowest[node] = min(lowest[node], reached[following])
    return circle_of


def _grouped(keyed_tasks: Iterable[tuple[Hashable, T]]) -> tuple[tuple[T, ...], ...]:
    groups: dict[Hashable, list[T]] = {}
    for name, task in keyed_tasks:
        groups.setdefault(name, []).append(task)
    return tuple(map(tuple, groups.values()))


def _by_task(pairs: Iterable[tuple[T, Exchange[T]]]) -> dict[T, list[Exchange[T]]]:
    by_task: dict[T, list[Exchange[T]]] = {}
    for task, exchange in pairs:
        by_task.setdefault(task, []).append(exchange)
    return by_task
