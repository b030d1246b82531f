"""How many TaskManagers there are and are to be: as many as configured live or are on their way, always.

The id of a TaskManager that was given up is never used again: what it still says cannot be taken for its successor's.
"""

from __future__ import annotations

from flykka.actors.scheduling.slot_manager_events import StartTaskManager
from flykka.messages.ids import TaskManagerId

START_RETRY_MS = 3_000
"""How long to wait after a TaskManager that ended before it could register: what cannot start must not be started in a
tight loop (Flink's resourcemanager.start-worker.retry-interval)."""


class TaskManagerTracker:
    """The TaskManagers by what is known of them."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._starting: set[TaskManagerId] = set()
        self._registered: set[TaskManagerId] = set()
        self._gone: set[TaskManagerId] = set()
        self._last_number = 0

    def knows(self, task_manager: TaskManagerId) -> bool:
        """It lives or is on its way."""
        return task_manager in self._starting or task_manager in self._registered

    def is_registered(self, task_manager: TaskManagerId) -> bool:
        """It lives."""
        return task_manager in self._registered

    def is_gone(self, task_manager: TaskManagerId) -> bool:
        """It was given up."""
        return task_manager in self._gone

    def register(self, task_manager: TaskManagerId) -> None:
        """It lives; it may be one that somebody else started."""
        self._starting.discard(task_manager)
        self._registered.add(task_manager)

    def give_up(self, task_manager: TaskManagerId) -> list[StartTaskManager]:
        """It is lost; what is to be started in its place."""
        had_registered = task_manager in self._registered
        self._starting.discard(task_manager)
        self._registered.discard(task_manager)
        self._gone.add(task_manager)
        return self.start_missing(delay_ms=0 if had_registered else START_RETRY_MS)

    def start_missing(self, delay_ms: int = 0) -> list[StartTaskManager]:
        """The TaskManagers to start, each under the next number."""
        missing = self._wanted - len(self._starting) - len(self._registered)
        return [StartTaskManager(task_manager=self._next_id(), delay_ms=delay_ms) for _ in range(missing)]

    def check(self) -> None:
        """Assert the invariants."""
        assert not self._starting & self._registered, "a TaskManager is on its way and there"
        assert not self._gone & (self._starting | self._registered), "a TaskManager is gone and there"

    def _next_id(self) -> TaskManagerId:
        self._last_number += 1
        task_manager = TaskManagerId(f"task-manager-{self._last_number}")
        self._starting.add(task_manager)
        return task_manager
