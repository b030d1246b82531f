"""Decides whether, when and with which tasks a job restarts after a failure (Flink's ExecutionFailureHandler).

`handle` decides on a failure of tasks, `handle_global` on a failure of the whole job. A failure that no restart can fix
does not count as a restart. If the strategy limits equal failures, a failure that repeats without a completed
checkpoint in between ends the job (`repeated_failures`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from flykka.actors.machines.restart.repeated_failures import RepeatedFailures, is_of_environment
from flykka.actors.machines.restart.restart_strategy import RestartBackoff, RestartStrategy
from flykka.actors.machines.scheduling.topology import Exchange, Partition, SchedulingTopology
from flykka.messages.graph.job_graph import FailoverStrategyKind
from flykka.messages.wire.failure import SerializedThrowable

T = TypeVar("T", bound=Hashable)


class ThrowableType(Enum):
    """The type of a failure, which determines whether the job restarts (Flink's ThrowableType)."""

    NON_RECOVERABLE = auto()
    """The next attempt would fail with the same error."""
    PARTITION_DATA_MISSING = auto()
    """A result that was produced is lost, so its producer has to run again."""
    ENVIRONMENT = auto()
    """The environment of the task has failed, not the task itself."""
    RECOVERABLE = auto()
    """Any other failure, which may not occur again."""


_NON_RECOVERABLE = frozenset({"NoResourceAvailableError", "OwnershipLostError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTasks(Generic[T]):
    tasks: frozenset[T]
    backoff: RestartBackoff


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Fail the job because of `cause`. `why` states why it is not restarted.

    Either restarts are suppressed, because a restart would not help, or the restart strategy allows no further restart.
    """

    cause: SerializedThrowable
    why: str


class ExecutionFailureHandler(Generic[T]):
    def __init__(self, restart_strategy: RestartStrategy, failover_strategy: FailoverStrategy[T]) -> None:
        self._restarts = restart_strategy
        self._failover = failover_strategy
        self._repeated = RepeatedFailures(restart_strategy.max_same_failures)

    def handle(
        self, tasks: Collection[T], cause: SerializedThrowable, now: int, vertex: str | None = None
    ) -> RestartTasks[T] | GiveUp:
        """Handle the failure of tasks that have failed together. `vertex` is the vertex of the first task."""
        return self._decide(self._failover.tasks_to_restart(tasks), cause, now, vertex)

    def handle_global(
        self, cause: SerializedThrowable, now: int, vertex: str | None = None
    ) -> RestartTasks[T] | GiveUp:
        """Handle a failure of the whole job, which may have begun with a task of `vertex`."""
        return self._decide(self._failover.all_tasks, cause, now, vertex)

    def replace_failover_strategy(self, failover_strategy: FailoverStrategy[T]) -> None:
        """Replace the strategy, because the tasks of the job have changed. The counts of failures are retained."""
        self._failover = failover_strategy

    def checkpoint_completed(self) -> None:
        self._repeated.checkpoint_completed()

    def _decide(
        self, tasks: frozenset[T], cause: SerializedThrowable, now: int, vertex: str | None
    ) -> RestartTasks[T] | GiveUp:
        if classify(cause) is ThrowableType.NON_RECOVERABLE:
            return GiveUp(cause=cause, why=f"restarts are suppressed: no restart can fix {cause.type_name}")
        repeated = self._repeated.count(vertex, cause, tasks)
        if repeated is not None:
            final_cause = replace(cause, message=f"{cause.message}\n{repeated}; the job is not restarted again")
            return GiveUp(cause=final_cause, why=f"restarts are suppressed: the job {repeated}")
        if not self._restarts.can_restart(now):
            why = f"the restart strategy allows {self._restarts.allowance}"
            return GiveUp(cause=cause, why=why)
        self._restarts.restart(now)
        return RestartTasks(tasks=tasks, backoff=self._restarts.backoff)


def classify(cause: SerializedThrowable) -> ThrowableType:
    """Classify a failure (Flink's ThrowableClassifier).

    If any exception in the chain of causes suppresses restarts, the whole failure does. `runtime.errors.serialized`
    determines this when it serializes the exception.
    """
    if cause.suppress_restarts or cause.type_name in _NON_RECOVERABLE:
        return ThrowableType.NON_RECOVERABLE
    if cause.lost_partition is not None:
        return ThrowableType.PARTITION_DATA_MISSING
    if is_of_environment(cause.type_name):
        return ThrowableType.ENVIRONMENT
    return ThrowableType.RECOVERABLE


class FailoverStrategy(Protocol[T]):
    """Decides which tasks restart when some have failed (Flink's FailoverStrategy).

    The region of a failed task restarts as a whole, because its tasks cannot continue with half of the exchanged rows.
    The regions that produced its inputs restart too if these inputs are lost, and so do the regions that read its
    results, because it may not produce the same results again. The same applies to each of these regions.

    If a job accepts the loss of rows, upstream tasks continue: only the task and all tasks downstream of it restart.
    """

    @property
    def all_tasks(self) -> frozenset[T]: ...

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        """Return the tasks that restart when these have failed, including the failed tasks."""


class PartitionAvailability(Generic[T]):
    """Tracks which results that outlive their producers are available. Results may be lost or released."""

    def __init__(self) -> None:
        self._gone: set[Partition[T]] = set()

    def is_available(self, partition: Partition[T]) -> bool:
        """Return True if the partition can be read, now or when its producer has finished."""
        return partition not in self._gone

    def lose(self, partitions: Iterable[Partition[T]]) -> None:
        self._gone.update(partitions)

    def produced_again(self, partitions: Iterable[Partition[T]]) -> None:
        self._gone.difference_update(partitions)


class RestartAllFailoverStrategy(Generic[T]):
    def __init__(self, topology: SchedulingTopology[T]) -> None:
        self.all_tasks = frozenset(topology.tasks)

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        return self.all_tasks


class RestartPipelinedRegionFailoverStrategy(Generic[T]):
    """Restarts regions, as described in `FailoverStrategy` (Flink's RestartPipelinedRegionFailoverStrategy)."""

    def __init__(self, topology: SchedulingTopology[T], availability: PartitionAvailability[T]) -> None:
        self.all_tasks = frozenset(topology.tasks)
        self._topology = topology
        self._availability = availability

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        regions = dict.fromkeys(self._topology.regions_of(failed))
        ahead = deque(regions)
        # An exchange with many readers or writers is visited only once from each side.
        read: set[Exchange[T]] = set()
        written: set[Exchange[T]] = set()
        while ahead:
            for task in self._topology.regions[ahead.popleft()]:
                for neighbour in self._beside(task, read, written):
                    if neighbour not in regions:
                        regions[neighbour] = None
                        ahead.append(neighbour)
        return frozenset(task for region in regions for task in self._topology.regions[region])

    def _beside(self, task: T, read: set[Exchange[T]], produced: set[Exchange[T]]) -> Iterable[int]:
        for exchange in self._topology.consumed(task):
            if exchange.is_blocking and exchange not in read:
                read.add(exchange)
                yield from self._topology.regions_of(self._lost_producers(exchange))
        for exchange in self._topology.produced(task):
            if exchange.is_blocking and exchange not in produced:
                produced.add(exchange)
                yield from self._topology.regions_of(exchange.consumers)

    def _lost_producers(self, exchange: Exchange[T]) -> Iterable[T]:
        return (each.producer for each in exchange.partitions if not self._availability.is_available(each))


class ApproximateLocalRecoveryFailoverStrategy(Generic[T]):
    """Restarts the failed tasks and all downstream tasks, which reconnect to upstream tasks that continue.

    Equals Flink's regions if all partitions are PIPELINED_APPROXIMATE. A finished task cannot send to another reader,
    so if there is a finished task upstream, whole regions restart.
    """

    def __init__(
        self, topology: SchedulingTopology[T], regional: FailoverStrategy[T], has_finished: Callable[[T], bool]
    ) -> None:
        self.all_tasks = frozenset(topology.tasks)
        self._topology = topology
        self._regional = regional
        self._has_finished = has_finished

    def tasks_to_restart(self, failed: Collection[T]) -> frozenset[T]:
        affected = dict.fromkeys(failed)
        ahead = deque(affected)
        while ahead:
            for exchange in self._topology.produced(ahead.popleft()):
                new_tasks = [task for task in exchange.consumers if task not in affected]
                affected.update(dict.fromkeys(new_tasks))
                ahead.extend(new_tasks)
        producers = (
            task for each in affected for exchange in self._topology.consumed(each) for task in exchange.producers
        )
        if any(task not in affected and self._has_finished(task) for task in producers):
            return self._regional.tasks_to_restart(failed)
        return frozenset(affected)


def failover_strategy(
    kind: FailoverStrategyKind, topology: SchedulingTopology[T], availability: PartitionAvailability[T]
) -> FailoverStrategy[T]:
    if kind is FailoverStrategyKind.FULL:
        return RestartAllFailoverStrategy(topology)
    return RestartPipelinedRegionFailoverStrategy(topology, availability)
