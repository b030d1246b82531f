"""Tracks TaskManagers: how many there are and are to be, and the slots expected of those on their way.

As many as configured live or are on their way, always. While requests wait for which no slot is expected, more are
started, up to a maximum; of what is beyond the configured number, those that have been idle for long are released. What
cannot start is not started in a tight loop: the pause before the next one grows with every failure in a row.

A TaskManager that was given up does not come back; another instance of its name may.
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
"""The prefix of TaskManagers' names, with a number behind it."""

START_RETRY_MS = 3_000
"""The pause after a TaskManager that ended before it could register (Flink's
resourcemanager.start-worker.retry-interval)."""
START_RETRY_MS_MAX = 60_000
START_FAILURES_MAX = 3
"""So many failures in a row, and nobody should go on waiting for a TaskManager to come."""
TASK_MANAGER_TIMEOUT_MS = 30_000
"""Flink's resourcemanager.taskmanager-timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTaskManager:
    """Start a TaskManager of this id, after `delay_ms`."""

    task_manager: TaskManagerId
    delay_ms: int = 0


@trace_tag("cluster.worker_counts")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """Numbers of TaskManagers: `configured`, at most `maximum`, and the slots that one of them offers.

    One that has `total` resources can cut slots of other sizes than `slot_size` of them. What is beyond the configured
    number is released after `idle_timeout_ms` without use.
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
        """The number of slots expected of each that is on its way."""
        self._registered: dict[TaskManagerId, int] = {}
        """The instance of each that lives."""
        self._gone: dict[TaskManagerId, int] = {}
        """The last instance of each that was given up."""
        self._idle_since_ms: dict[TaskManagerId, int] = {}
        self._idle_period: dict[TaskManagerId, int] = {}
        self._last_number = 0
        self._last_idle_period = 0
        self._failures = 0

    # What may be asked

    def knows(self, task_manager: TaskManagerId) -> bool:
        """It lives or is on its way."""
        return task_manager in self._starting or task_manager in self._registered

    def is_registered(self, task_manager: TaskManagerId) -> bool:
        return task_manager in self._registered

    def is_gone(self, task_manager: TaskManagerId, instance: int) -> bool:
        """This instance, or a later one, was given up."""
        return instance <= self._gone.get(task_manager, 0)

    def is_idle(self, task_manager: TaskManagerId) -> bool:
        return task_manager in self._idle_since_ms

    @property
    def expected_slots(self) -> int:
        return sum(self._starting.values())

    @property
    def startable_slots(self) -> int:
        """The number of slots that will come, with those on their way or with those that can be started beside them."""
        room = self._workers.limit() - len(self._starting) - len(self._registered)
        return self.expected_slots + max(0, room) * self._workers.slots

    @property
    def keeps_failing(self) -> bool:
        """So many have failed to start in a row that the next one will, too."""
        return self._failures >= START_FAILURES_MAX

    def sizes_to_come(self) -> frozenset[ResourceSpec]:
        """The largest slot of one that is on its way, or can be started; none where there will be no other."""
        can_start = len(self._starting) + len(self._registered) < self._workers.limit()
        return frozenset({self._workers.largest_slot} if can_start or self.expected_slots > 0 else ())

    # Coming

    def take_over(self, task_managers: Iterable[TaskManagerId]) -> None:
        """They were started by an earlier ResourceManager, and live; numbers go on behind theirs."""
        for task_manager in task_managers:
            self._starting[task_manager] = self._workers.slots
            self._last_number = max(self._last_number, number_of(task_manager))

    def register(self, task_manager: TaskManagerId, instance: int) -> None:
        """It lives; it may be one that somebody else started."""
        self._failures = 0
        self._starting.pop(task_manager, None)
        self._registered[task_manager] = instance

    def fulfil_expectations(self, report: SlotReport) -> None:
        """A foreign TaskManager brought free slots: so many fewer are needed of those on their way."""
        for status in report.slots:
            expecting = next((each for each, slots in self._starting.items() if slots), None)
            if status.allocation_id is None and expecting is not None and status.resources == self._workers.slot_size:
                self._starting[expecting] -= 1

    def start_missing(self, delay_ms: int = 0) -> list[StartTaskManager]:
        """The TaskManagers that the configured number lacks, each under the next number."""
        missing = self._workers.configured - len(self._starting) - len(self._registered)
        return [self._start(delay_ms) for _ in range(missing)]

    def start_for(self, waiting: Collection[tuple[ResourceSpec, int]]) -> list[StartTaskManager]:
        """The TaskManagers to start for so many waiting requests of each size, within the limit."""
        room = self._workers.limit() - len(self._starting) - len(self._registered)
        return [self._start(self._pause()) for _ in range(min(self._lacking(waiting), room))]

    def _lacking(self, waiting: Collection[tuple[ResourceSpec, int]]) -> int:
        workers = self._workers
        if workers.total == UNSPECIFIED:
            number = sum(number for _, number in waiting)
            return -(-(number - self.expected_slots) // workers.slots)
        sizes = [(cut_for(size, workers.slot_size), number) for size, number in waiting]
        return task_managers_needed(sizes, workers.total) - sum(slots > 0 for slots in self._starting.values())

    # Going

    def give_up(self, task_manager: TaskManagerId, instance: int) -> list[StartTaskManager]:
        """It is lost; what is to be started in its place."""
        had_registered = task_manager in self._registered
        if not had_registered:
            self._failures += 1
        self.forget(task_manager, instance)
        return self.start_missing(delay_ms=0 if had_registered else self._pause())

    def forget_released(self, task_manager: TaskManagerId) -> None:
        """It is told to end: nobody needs it."""
        self.forget(task_manager, self._registered[task_manager])

    def forget(self, task_manager: TaskManagerId, instance: int) -> None:
        """It is there no more, and does not come back."""
        self.leave(task_manager)
        self._gone[task_manager] = max(instance, self._gone.get(task_manager, 0))

    def leave(self, task_manager: TaskManagerId) -> None:
        """It is not there; one of its name is about to come."""
        self._starting.pop(task_manager, None)
        self._registered.pop(task_manager, None)
        self._idle_since_ms.pop(task_manager, None)
        self._idle_period.pop(task_manager, None)

    # Idleness

    def note_use(self, task_manager: TaskManagerId, now: int, *, is_unused: bool) -> None:
        """Its slots are all free, or not. Each time that they become so another idle period begins."""
        if not is_unused:
            self._idle_since_ms.pop(task_manager, None)
        elif task_manager not in self._idle_since_ms:
            self._last_idle_period += 1
            self._idle_since_ms[task_manager] = now
            self._idle_period[task_manager] = self._last_idle_period

    def idle_for_too_long(self, now: int) -> list[tuple[TaskManagerId, int]]:
        """The TaskManagers that may be released, as many as are too many, and their idle periods."""
        idle = [
            (task_manager, self._idle_period[task_manager])
            for task_manager, since_ms in self._idle_since_ms.items()
            if now - since_ms >= self._workers.idle_timeout_ms
        ]
        return idle[: max(0, len(self._registered) - self._workers.configured)]

    def may_release(self, task_manager: TaskManagerId, idle_period: int) -> bool:
        """True if it was not used meanwhile, and is still one too many."""
        is_same = task_manager in self._idle_since_ms and self._idle_period[task_manager] == idle_period
        return is_same and len(self._registered) > self._workers.configured

    def check(self) -> None:
        assert not self._starting.keys() & self._registered.keys(), "a TaskManager is on its way and there"
        assert self._idle_since_ms.keys() <= self._registered.keys(), "a TaskManager is idle that is not there"
        for task_manager, instance in self._registered.items():
            assert not self.is_gone(task_manager, instance), f"{task_manager} is gone and there"

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
    """The number behind its name; 0 where it has none."""
    number = task_manager.removeprefix(NAME)
    return int(number) if number.isdecimal() else 0
