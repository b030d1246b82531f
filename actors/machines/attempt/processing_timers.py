"""Decides when the bridge fires timers that go by processing time (Flink's ProcessingTimeService of a task).

The bridge knows the timers, and tells the first of them with every stage. One timer of the task's actor runs for it.
"""

from __future__ import annotations

from flykka.actors.machines.effects import StartTimer
from flykka.messages.tasks.task import ProcessingTimeDue


class ProcessingTimers:
    """The next processing-time timer of a task; without operators that go by processing time there is none."""

    __slots__ = ("_is_ended", "_next_ms", "_uses_processing_time", "is_due")

    def __init__(self, *, uses_processing_time: bool) -> None:
        self._uses_processing_time = uses_processing_time
        self._next_ms: int | None = None
        self._is_ended = False
        self.is_due = False

    def time_of_stage(self, now: int) -> int:
        """The processing time of a stage that is begun `now`; 0 where nothing goes by it."""
        return now if self._uses_processing_time else 0

    def on_restored(self) -> None:
        """State is restored, and with it maybe timers, of which the bridge tells when it has read them."""
        self.is_due = self._uses_processing_time

    def on_stage_finished(self, next_timer_ms: int | None, now: int) -> list[StartTimer]:
        """The bridge has told its first timer."""
        before, self._next_ms = self._next_ms, None if self._is_ended else next_timer_ms
        self.on_due(now)
        if self._next_ms is None or self._next_ms == before or self.is_due:
            return []
        return [StartTimer(key="processing-time", delay_ms=self._next_ms - now, message=ProcessingTimeDue())]

    def on_due(self, now: int) -> None:
        """The timer of the actor went off, which may be that of a timer which is no longer the first."""
        self.is_due = self._next_ms is not None and self._next_ms <= now

    def fire(self) -> None:
        """A stage fires what is due."""
        self._next_ms, self.is_due = None, False

    def end(self) -> None:
        """The data is at its end: as in Flink timers that go by processing time fire no more."""
        self._next_ms, self.is_due, self._is_ended = None, False, True
