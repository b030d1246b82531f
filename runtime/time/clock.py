"""Clocks of the kernel: whole milliseconds since the epoch that never go back, and alarms."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger("flykka.runtime")


class Alarm:
    """A call at `due_ms`. Cancelling is idempotent and may be too late."""

    __slots__ = ("_queue", "callback", "due_ms")

    def __init__(self, due_ms: int, callback: Callable[[], object], queue: AlarmQueue) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], object] | None = callback
        self._queue = queue

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._queue.forget()


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call `callback` when the time is `due_ms`. The call must be short, because it delays the other alarms."""

    def close(self) -> None: ...


class AlarmQueue:
    """Alarms ordered by time, then by scheduling. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Alarm]] = []
        self._made = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(due_ms, callback, self)
        self._made += 1
        heapq.heappush(self._heap, (due_ms, self._made, alarm))
        return alarm

    def forget(self) -> None:
        """Count a cancelled alarm. Cancelled alarms are removed when they are the majority."""
        self._cancelled += 1

    def next_due(self) -> int | None:
        self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Alarm | None:
        due = self.next_due()
        return heapq.heappop(self._heap)[2] if due is not None and due <= now_ms else None

    def _drop_cancelled(self) -> None:
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled = max(0, self._cancelled - 1)


class SystemClock:
    """Real time. A daemon thread, started with the first alarm, fires all alarms of a system."""

    def __init__(self) -> None:
        # The epoch is read once, so that an adjustment of the wall clock neither delays timers nor makes time go
        # back.
        self._origin_ns = time.time_ns() - time.monotonic_ns()
        self._alarms = AlarmQueue()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def now_ms(self) -> int:
        return (self._origin_ns + time.monotonic_ns()) // 1_000_000

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        with self._condition:
            next_due = self._alarms.next_due()
            alarm = self._alarms.add(due_ms, callback)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="flykka-timers", daemon=True)
                self._thread.start()
            elif next_due is None or due_ms < next_due:
                self._condition.notify()
        return alarm

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while (alarm := self._alarms.pop_due(self.now_ms())) is None and not self._closed:
                    due = self._alarms.next_due()
                    self._condition.wait(None if due is None else max(0.001, (due - self.now_ms()) / 1000))
                if self._closed:
                    return
            assert alarm is not None
            ring(alarm)


def ring(alarm: Alarm) -> None:
    callback, alarm.callback = alarm.callback, None
    if callback is None:
        return
    try:
        callback()
    except Exception:
        # A faulty callback must not end the alarms of all actors.
        logger.exception("the function of an alarm failed")
