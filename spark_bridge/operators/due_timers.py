"""Knows how far the timers of one time domain have fired in an attempt, and when the next of them may be due."""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.state.segments import Frame, Segment
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.current_key import TimeDomain


class DueTimers:
    """Timers up to `fired_ms` have fired, but for those in segments whose version is later than `fired_version`."""

    def __init__(self, domain: TimeDomain) -> None:
        self.domain = domain
        self.fired_ms = WATERMARK_MIN
        self.fired_version = 0
        self._next_ms: int | None = None

    def first_ms(self, segments: Iterable[Segment[Frame]]) -> int | None:
        """The first timer in these segments that has not fired, or one that was deleted; None where there is none."""
        timers = [] if self._next_ms is None else [self._next_ms]
        for segment in segments:
            event_ms, processing_ms = segment.first_timers_ms
            first = event_ms if self.domain is TimeDomain.EVENT_TIME else processing_ms
            if segment.version > self.fired_version and first is not None:
                timers.append(first)
        return min(timers, default=None)

    def on_fired(self, to_ms: int, version: int, next_ms: int | None) -> None:
        """Note that timers up to a time have fired, in segments up to a version, of which `next_ms` is the next."""
        self.fired_ms, self.fired_version, self._next_ms = to_ms, version, next_ms
