"""Decides whether, when and with which tasks a job restarts after a failure (Flink's ExecutionFailureHandler).

`handle` is asked for a failure of tasks, `handle_global` for one of the job as a whole. A failure that no restart can
mend does not use up a restart. One that comes back again and again, with no checkpoint completed in between, is
given up where the strategy has a limit for that (`repeated_failures`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Generic, TypeVar

from flykka.actors.machines.restart.failover_strategy import FailoverStrategy
from flykka.actors.machines.restart.repeated_failures import RepeatedFailures, is_of_environment
from flykka.actors.machines.restart.restart_strategy import RestartBackoff, RestartStrategy
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
    """Answers the failures of one job."""

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
