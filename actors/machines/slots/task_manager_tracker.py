"""Tracks TaskManagers: how many exist, how many should exist, and the slots expected from those that are starting.

The configured number is always running or starting. While requests wait for which no slot is expected, more
TaskManagers are started, up to a maximum. TaskManagers beyond the configured number are released after a long idle
time. The delay before the next start grows with every failed start in a row, so that failed starts are not repeated in
a tight loop. A TaskManager that was given up does not return, but another instance with its name may register.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, cut_for, task_managers_needed
from flykka.messages.control.registration import SlotReport
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import TaskManagerId
from flykka.messages.wire.tags import trace_tag

NAME = "task-manager-"
"""The prefix of TaskManager names, followed by a number."""

START_RETRY_MS = 3_000
"""The delay in ms after a TaskManager ended before it registered (Flink's resourcemanager.start-worker.retry-interval).
"""
START_RETRY_MS_MAX = 60_000
START_FAILURES_MAX = 3
"""The number of failed starts in a row after which requests no longer wait for a new TaskManager."""
TASK_MANAGER_TIMEOUT_MS = 30_000
"""Flink's resourcemanager.taskmanager-timeout in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTaskManager:
    task_manager: TaskManagerId
    delay_ms: int = 0


@trace_tag("cluster.worker_counts")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """The `configured` and `maximum` number of TaskManagers, and the slots that each TaskManager offers.

    A TaskManager with `total` resources can create slots of sizes other than `slot_size` from them. TaskManagers beyond
    the configured number are released after `idle_timeout_ms` without use.
    """

    configured: int
    maximum: int | None = None
    slots: int = 1
    slot_size: ResourceSpec = UNSPECIFIED
    total: ResourceSpec = UNSPECIFIED
    idle_timeout_ms: int = TASK_MANAGER_TIMEOUT_MS

    def limit(self) -> int:
        return self.configured if self.maximum is None else max(self.configured, self.maximum)

    @property
    def largest_slot(self) -> ResourceSpec:
        return self.slot_size if self.total == UNSPECIFIED else self.total


class TaskManagerTracker:
    def __init__(self, workers: WorkerCounts) -> None:
        self._workers = workers
        self._starting: dict[TaskManagerId, int] = {}
        """The number of slots expected from each starting TaskManager."""
        self._registered: dict[TaskManagerId, int] = {}
        """The instance of each registered TaskManager."""
        self._gone: dict[TaskManagerId, int] = {}
        """The last instance of each TaskManager that was given up."""
        self._idle_since_ms: dict[TaskManagerId, int] = {}
        self._idle_period: dict[TaskManagerId, int] = {}
        self._last_number = 0
        self._last_idle_period = 0
        self._failures = 0

    # Queries

    def knows(self, task_manager: TaskManagerId) -> bool:
        return task_manager in self._starting or task_manager in self._registered

    def is_registered(self, task_manager: TaskManagerId) -> bool:
        return task_manager in self._registered

    def is_gone(self, task_manager: TaskManagerId, instance: int) -> bool:
        return instance <= self._gone.get(task_manager, 0)

    def is_idle(self, task_manager: TaskManagerId) -> bool:
        return task_manager in self._idle_since_ms

    @property
    def expected_slots(self) -> int:
        return sum(self._starting.values())

    @property
    def startable_slots(self) -> int:
        room = self._workers.limit() - len(self._starting) - len(self._registered)
        return self.expected_slots + max(0, room) * self._workers.slots

    @property
    def keeps_failing(self) -> bool:
        return self._failures >= START_FAILURES_MAX

    def sizes_to_come(self) -> frozenset[ResourceSpec]:
        can_start = len(self._starting) + len(self._registered) < self._workers.limit()
        return frozenset({self._workers.largest_slot} if can_start or self.expected_slots > 0 else ())

    # New TaskManagers

    def take_over(self, task_managers: Iterable[TaskManagerId]) -> None:
        """Adopt TaskManagers that an earlier ResourceManager has started. New numbers continue after theirs."""
        for task_manager in task_managers:
            self._starting[task_manager] = self._workers.slots
            self._last_number = max(self._last_number, number_of(task_manager))

    def register(self, task_manager: TaskManagerId, instance: int) -> None:
        self._failures = 0
        self._starting.pop(task_manager, None)
        self._registered[task_manager] = instance

    def fulfil_expectations(self, report: SlotReport) -> None:
        """Reduce the slots expected from starting TaskManagers by the free slots of one that was started elsewhere."""
        for status in report.slots:
            expecting = next((each for each, slots in self._starting.items() if slots), None)
            if status.allocation_id is None and expecting is not None and status.resources == self._workers.slot_size:
                self._starting[expecting] -= 1

    def start_missing(self, delay_ms: int = 0) -> list[StartTaskManager]:
        missing = self._workers.configured - len(self._starting) - len(self._registered)
        return [self._start(delay_ms) for _ in range(missing)]

    def start_for(self, waiting: Collection[tuple[ResourceSpec, int]]) -> list[StartTaskManager]:
        room = self._workers.limit() - len(self._starting) - len(self._registered)
        return [self._start(self._pause()) for _ in range(min(self._lacking(waiting), room))]

    def _lacking(self, waiting: Collection[tuple[ResourceSpec, int]]) -> int:
        workers = self._workers
        if workers.total == UNSPECIFIED:
            number = sum(number for _, number in waiting)
            return -(-(number - self.expected_slots) // workers.slots)
        sizes = [(cut_for(size, workers.slot_size), number) for size, number in waiting]
        return task_managers_needed(sizes, workers.total) - sum(slots > 0 for slots in self._starting.values())

    # Lost and released TaskManagers

    def give_up(self, task_manager: TaskManagerId, instance: int) -> list[StartTaskManager]:
        had_registered = task_manager in self._registered
        if not had_registered:
            self._failures += 1
        self.forget(task_manager, instance)
        return self.start_missing(delay_ms=0 if had_registered else self._pause())

    def forget_released(self, task_manager: TaskManagerId) -> None:
        self.forget(task_manager, self._registered[task_manager])

    def forget(self, task_manager: TaskManagerId, instance: int) -> None:
        """Remove a TaskManager. This instance of the TaskManager cannot return."""
        self.leave(task_manager)
        self._gone[task_manager] = max(instance, self._gone.get(task_manager, 0))

    def leave(self, task_manager: TaskManagerId) -> None:
        """Remove a TaskManager whose name will register again."""
        self._starting.pop(task_manager, None)
        self._registered.pop(task_manager, None)
        self._idle_since_ms.pop(task_manager, None)
        self._idle_period.pop(task_manager, None)

    # Idleness

    def record_use(self, task_manager: TaskManagerId, now: int, *, is_unused: bool) -> None:
        """Record whether all slots of the TaskManager are free. An idle period begins each time they become free."""
        if not is_unused:
            self._idle_since_ms.pop(task_manager, None)
        elif task_manager not in self._idle_since_ms:
            self._last_idle_period += 1
            self._idle_since_ms[task_manager] = now
            self._idle_period[task_manager] = self._last_idle_period

    def idle_for_too_long(self, now: int) -> list[tuple[TaskManagerId, int]]:
        idle = [
            (task_manager, self._idle_period[task_manager])
            for task_manager, since_ms in self._idle_since_ms.items()
            if now - since_ms >= self._workers.idle_timeout_ms
        ]
        return idle[: max(0, len(self._registered) - self._workers.configured)]

    def may_release(self, task_manager: TaskManagerId, idle_period: int) -> bool:
        """Return True if the TaskManager has been idle since this period began, and there are still too many."""
        is_same = task_manager in self._idle_since_ms and self._idle_period[task_manager] == idle_period
        return is_same and len(self._registered) > self._workers.configured

    def check(self) -> None:
        assert not self._starting.keys() & self._registered.keys(), "a registered TaskManager counts as starting"
        assert self._idle_since_ms.keys() <= self._registered.keys(), "an idle TaskManager is not registered"
        for task_manager, instance in self._registered.items():
            assert not self.is_gone(task_manager, instance), f"{task_manager} is registered although it was given up"

    def _pause(self) -> int:
        if self._failures == 0:
            return 0
        return min(START_RETRY_MS << min(self._failures - 1, 10), START_RETRY_MS_MAX)

    def _start(self, delay_ms: int) -> StartTaskManager:
        self._last_number += 1
        task_manager = TaskManagerId(f"{NAME}{self._last_number}")
        self._starting[task_manager] = self._workers.slots
        return StartTaskManager(task_manager=task_manager, delay_ms=delay_ms)


def number_of(task_manager: TaskManagerId) -> int:
    number = task_manager.removeprefix(NAME)
    return int(number) if number.isdecimal() else 0
