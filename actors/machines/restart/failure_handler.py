"""Decides whether, when and with which tasks a job restarts after a failure (Flink's ExecutionFailureHandler).

`handle` is asked for a failure of tasks, `handle_global` for one of the job as a whole. A failure that no restart can
mend does not use up a restart. One that comes back again and again, with no checkpoint completed in between, is
given up where the strategy has a limit for that (`repeated_failures`).
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
    """The type of a failure, by which it restarts or not (Flink's ThrowableType)."""

    NON_RECOVERABLE = auto()
    """The next attempt would fail of the same."""
    PARTITION_DATA_MISSING = auto()
    """A result that was made is gone: its producer has to run again as well."""
    ENVIRONMENT = auto()
    """The environment of the task has failed, and not the task."""
    RECOVERABLE = auto()
    """Anything else: it may have been an accident."""


_NON_RECOVERABLE = frozenset({"NoResourceAvailableError", "OwnershipLostError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTasks(Generic[T]):
    """These tasks start again after the pause."""

    tasks: frozenset[T]
    backoff: RestartBackoff


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The job has failed for good, of `cause`; `why` says in words why it is not restarted.

    Either restarts are suppressed, because none would help, or the restart strategy forbids one more.
    """

    cause: SerializedThrowable
    why: str


class ExecutionFailureHandler(Generic[T]):
    def __init__(self, restart_strategy: RestartStrategy, failover_strategy: FailoverStrategy[T]) -> None:
        self._restarts = restart_strategy
        self._failover = failover_strategy
        self._repeated = RepeatedFailures(restart_strategy.max_same_failures)

    def handle(
        self, failed: Collection[T], cause: SerializedThrowable, now: int, vertex: str | None = None
    ) -> RestartTasks[T] | GiveUp:
        """Handle the failure of these tasks of `vertex`, which have failed together and of one cause."""
        return self._decide(self._failover.tasks_to_restart(failed), cause, now, vertex)

    def handle_global(
        self, cause: SerializedThrowable, now: int, vertex: str | None = None
    ) -> RestartTasks[T] | GiveUp:
        """Handle a failure of the job as a whole, which may have begun with a task of `vertex`."""
        return self._decide(self._failover.all_tasks, cause, now, vertex)

    def replace_failover_strategy(self, failover_strategy: FailoverStrategy[T]) -> None:
        """The job has other tasks now; what it has failed of counts on."""
        self._failover = failover_strategy

    def checkpoint_completed(self) -> None:
        """A checkpoint was completed: no failure before it counts as the same as one behind it."""
        self._repeated.checkpoint_completed()

    def _decide(
        self, tasks: frozenset[T], cause: SerializedThrowable, now: int, vertex: str | None
    ) -> RestartTasks[T] | GiveUp:
        if classify(cause) is ThrowableType.NON_RECOVERABLE:
            return GiveUp(cause=cause, why=f"restarts are suppressed: no restart can mend {cause.type_name}")
        repeated = self._repeated.count(vertex, cause, tasks)
        if repeated is not None:
            told = replace(cause, message=f"{cause.message}\n{repeated}; it is not retried any more")
            return GiveUp(cause=told, why=f"restarts are suppressed: it {repeated}")
        if not self._restarts.can_restart(now):
            why = f"the restart strategy forbids it: it allows {self._restarts.allowance}"
            return GiveUp(cause=cause, why=why)
        self._restarts.restart(now)
        return RestartTasks(tasks=tasks, backoff=self._restarts.backoff)


def classify(cause: SerializedThrowable) -> ThrowableType:
    """Classify a failure (Flink's ThrowableClassifier).

    Where an exception in its chain of causes asks for no restart, the whole failure does: it is looked for where the
    exception is written down (`runtime.errors.serialized`).
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

    The region of a task that has failed restarts as a whole: nobody can go on with half of what was exchanged.
    With it start the regions that made what it reads, where that is lost, and the regions that read what it makes,
    for it may not make the same again; and with each of these again those that it reads from and that read it.

    Where a job accepts that rows are lost, what is before the task goes on: only the task and all behind it
    restart.
    """

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
