"""A clock that tests control."""

from __future__ import annotations

import threading
from collections.abc import Callable

from flykka.runtime.time.clock import Alarm, AlarmQueue, ring


class ManualClock:
    """Virtual time. Alarms fire in the order of their times, on the thread that moves the clock."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms
        self._alarms = AlarmQueue()
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Return the virtual time."""
        return self._now_ms

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call `callback` when the clock is moved to `due_ms` or beyond."""
        with self._lock:
            return self._alarms.add(due_ms, callback)

    def next_due(self) -> int | None:
        """Return the time of the next alarm, or None."""
        with self._lock:
            return self._alarms.next_due()

    def advance(self, ms: int) -> None:
        """Advance the clock by `ms`, firing every alarm that becomes due at its own time."""
        target = self._now_ms + ms
        while (due := self.next_due()) is not None and due <= target:
            self.move_to(due)
        self.move_to(target)

    def move_to(self, now_ms: int) -> None:
        """Set the time, never back, and fire the alarms that are due by then."""
        self._now_ms = max(self._now_ms, now_ms)
        while True:
            with self._lock:
                alarm = self._alarms.pop_due(self._now_ms)
            if alarm is None:
                return
            ring(alarm)

    def close(self) -> None:
        """Do nothing, because there is no thread."""
