"""Decides which tasks begin when (Flink's SchedulingStrategy).

Asked when the job begins, when a task can be read from or has finished, and when tasks restart. It answers with
groups: each is deployed as a whole, as soon as all of its tasks have their slots.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, Protocol, TypeVar

from flykka.actors.machines.scheduling.topology import SchedulingTopology

T = TypeVar("T", bound=Hashable)
Groups = list[tuple[T, ...]]
"""Tasks that are deployed together."""


class SchedulingStrategy(Protocol[T]):
    """Decides which tasks of one job are deployed when."""

    def start(self) -> Groups[T]:
        """The tasks that begin with the job."""

    def data_produced(self, task: T) -> Groups[T]:
        """The task runs: who reads rows while they are made has something to read."""

    def finished(self, task: T) -> Groups[T]:
        """The task has finished: its results are whole."""

    def reset(self, tasks: Collection[T]) -> None:
        """A failover has begun for these: what they have made can no longer be read."""

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        """Resets these tasks, and returns those of them that begin at once."""


class EagerSchedulingStrategy(Generic[T]):
    """Everything begins at once, and restarts together (Flink's EagerSchedulingStrategy)."""

    def __init__(self, topology: SchedulingTopology[T]) -> None:
        self._topology = topology

    def start(self) -> Groups[T]:
        return [self._topology.tasks]

    def data_produced(self, task: T) -> Groups[T]:
        return []

    def finished(self, task: T) -> Groups[T]:
        return []

    def reset(self, tasks: Collection[T]) -> None:
        """Nobody waits for what they have made."""

    def restart(self, tasks: Collection[T]) -> Groups[T]:
        return [in_order(self._topology, tasks)]


def in_order(topology: SchedulingTopology[T], tasks: Collection[T]) -> tuple[T, ...]:
    """The tasks of these regions in the order of the job."""
    wanted = [task for region in sorted(topology.regions_of(tasks)) for task in topology.regions[region]]
    return tuple(task for task in wanted if task in tasks)
