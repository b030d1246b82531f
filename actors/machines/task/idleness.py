"""Detects sources silent for so long that they must not hold event time back (Flink's WatermarksWithIdleness).

One timer runs while the source is active: where something was read meanwhile it is set again for what is left of the
timeout. A source that is idle has no timer; the next split wakes it.
"""

from __future__ import annotations

from flykka.actors.machines.task.effects import StartIdleTimer


class SourceIdleness:
    """The silence of one source subtask; without a timeout it is never idle."""

    __slots__ = ("_last_read_ms", "_timeout_ms", "is_idle")

    def __init__(self, timeout_ms: int | None) -> None:
        self._timeout_ms = timeout_ms
        self._last_read_ms = 0
        self.is_idle = False

    def start(self, now: int) -> list[StartIdleTimer]:
        """The source runs."""
        self._last_read_ms = now
        return [] if self._timeout_ms is None else [StartIdleTimer(delay_ms=self._timeout_ms)]

    def read(self, now: int) -> list[StartIdleTimer]:
        """Something is read; a source that was idle is active again."""
        was_idle, self.is_idle = self.is_idle, False
        self._last_read_ms = now
        return self.start(now) if was_idle else []

    def on_due(self, now: int) -> list[StartIdleTimer]:
        """The timer went off: be idle, or look again when the rest of the timeout is over."""
        assert self._timeout_ms is not None, "a source without a timeout has no timer"
        rest_ms = self._last_read_ms + self._timeout_ms - now
        if rest_ms > 0:
            return [StartIdleTimer(delay_ms=rest_ms)]
        self.is_idle = True
        return []
