"""Pending failovers of some of the job's tasks: the tasks end, the delay passes, and then they restart.

A task belongs to the newest failover that includes it, and older failovers ignore it (`ExecutionVertexVersioner`), so
that it restarts once. A failover of the whole job ends all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.graph.events import DrawRestartDelay, RestartScheduled
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.restart.restart_strategy import RestartBackoff
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.wire.failure import SerializedThrowable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRestart:
    """A pending restart of the tasks with these `names`, or of all tasks, because of `cause`."""

    version: int
    backoff: RestartBackoff
    cause: SerializedThrowable
    names: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Failover:
    restart: PendingRestart
    versions: dict[Subtask, int]
    living: set[Subtask]
    is_due: bool = False


class Failovers:
    def __init__(self) -> None:
        self._versioner: ExecutionVertexVersioner[Subtask] = ExecutionVertexVersioner()
        self._under_way: dict[int, _Failover] = {}
        self._waiting_for: dict[Subtask, _Failover] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def get(self, version: int) -> PendingRestart | None:
        failover = self._under_way.get(version)
        return failover.restart if failover is not None else None

    def start_delay(
        self, restart: PendingRestart, tasks: Iterable[Subtask], living: Iterable[Subtask]
    ) -> Iterable[DrawRestartDelay | RestartScheduled | StartTimer]:
        """Start the delay, after which these tasks restart, as soon as the `living` tasks among them have ended."""
        versions = self._versioner.record_modifications(tuple(tasks))
        failover = _Failover(restart=restart, versions=versions, living=set(living))
        self._under_way[restart.version] = failover
        for task in failover.living:
            earlier = self._waiting_for.get(task)
            if earlier is not None:
                earlier.living.discard(task)
            self._waiting_for[task] = failover
        # A delay with jitter needs a random number first.
        has_jitter = restart.backoff.jitter_ms > 0
        return [DrawRestartDelay(version=restart.version)] if has_jitter else schedule_restart(restart, chance=0.0)

    def ended(self, task: Subtask) -> None:
        failover = self._waiting_for.pop(task, None)
        if failover is not None:
            failover.living.discard(task)

    def due(self, version: int) -> None:
        self._under_way[version].is_due = True

    def take_ready(self) -> list[tuple[PendingRestart, tuple[Subtask, ...]]]:
        """Remove and return the failovers that restart now, oldest first, without tasks of newer failovers."""
        ready = [version for version, each in self._under_way.items() if each.is_due and not each.living]
        failovers = [self._under_way.pop(version) for version in ready]
        unmodified = [(each.restart, self._versioner.unmodified(each.versions)) for each in failovers]
        return [(restart, tasks) for restart, tasks in unmodified if tasks]

    def end_all(self, tasks: Iterable[Subtask]) -> None:
        """End all pending failovers, because a decision about the whole job replaces them."""
        self._under_way.clear()
        self._waiting_for.clear()
        self._versioner.record_modifications(tuple(tasks))

    def check(self) -> None:
        failovers = list(self._under_way.values())
        assert all(any(each is failover for each in failovers) for failover in self._waiting_for.values())
        assert all(task in failover.living for task, failover in self._waiting_for.items())


def schedule_restart(restart: PendingRestart, chance: float) -> list[RestartScheduled | StartTimer]:
    """Start the timer of the delay. `chance` is a random number from 0 (inclusive) to 1 (exclusive)."""
    version, delay_ms = restart.version, restart.backoff.drawn(chance)
    return [
        StartTimer(key=f"restart-{version}", delay_ms=delay_ms, message=JobRestartDue(version=version)),
        RestartScheduled(delay_ms=delay_ms, version=version, tasks=restart.names, cause=restart.cause),
    ]


class ExecutionVertexVersioner(Generic[T]):
    """Versions of tasks, from 0: only the newest decision on a task is valid (Flink's ExecutionVertexVersioner).

    Each failover increments the versions of its tasks. After its delay it restarts only the tasks whose versions are
    unchanged; the others belong to a newer failover.
    """

    def __init__(self) -> None:
        self._versions: dict[T, int] = {}

    def record_modifications(self, tasks: Iterable[T]) -> dict[T, int]:
        for task in tasks:
            self._versions[task] = self.version(task) + 1
        return {task: self._versions[task] for task in tasks}

    def version(self, task: T) -> int:
        return self._versions.get(task, 0)

    def is_modified(self, task: T, version: int) -> bool:
        return self.version(task) != version

    def unmodified(self, versions: Mapping[T, int]) -> tuple[T, ...]:
        return tuple(task for task, version in versions.items() if not self.is_modified(task, version))
