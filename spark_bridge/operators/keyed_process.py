"""Functions that are called for each row with keyed state and timers, in any engine (Flink's KeyedProcessOperator)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from flykka.actors.machines.state.segments import Frame, Reading, Segment
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.operators.keyed_batch import KeyedBatches, KeyedBatchOperator, KeyedResult
from flykka.spark_bridge.operators.operator import Output, Rows
from flykka.spark_bridge.state.state_backend import StateBackend


class DueTimers:
    """The timers of a time domain that have fired: timers up to `fired_ms` in segments up to version
    `fired_version`.
    """

    def __init__(self, domain: TimeDomain) -> None:
        self.domain = domain
        self.fired_ms = WATERMARK_MIN
        self.fired_version = 0
        self._next_ms: int | None = None

    def first_ms(self, segments: Iterable[Segment[Frame]]) -> int | None:
        """Return the earliest timer in these segments that has not fired (it may be deleted); None if there is none."""
        timers = [] if self._next_ms is None else [self._next_ms]
        for segment in segments:
            event_ms, processing_ms = segment.first_timers_ms
            first = event_ms if self.domain is TimeDomain.EVENT_TIME else processing_ms
            if segment.version > self.fired_version and first is not None:
                timers.append(first)
        return min(timers, default=None)

    def on_fired(self, to_ms: int, version: int, next_ms: int | None) -> None:
        """Record that timers up to `to_ms`, in segments up to `version`, have fired; the next timer is at `next_ms`."""
        self.fired_ms, self.fired_version, self._next_ms = to_ms, version, next_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFiring:
    """The timers of a domain to fire: up to `due_ms`, and later than `after_ms`, up to which timers have fired before.

    In segments with versions later than `after_version`, earlier timers are due too.
    """

    domain: TimeDomain
    due_ms: int
    after_ms: int
    after_version: int
    watermark_ms: int
    processing_time_ms: int


class KeyedFunction(KeyedBatches[Rows, Frame], Protocol[Rows, Frame]):
    @property
    def sees_watermarks(self) -> bool: ...

    def fired(self, firing: TimerFiring, readings: Sequence[Reading[Frame]], version: int) -> KeyedResult[Rows, Frame]:
        """Call the function for due timers. Its state changes get this version."""


class KeyedProcessOperator(KeyedBatchOperator[Rows, Frame]):
    def __init__(
        self, operator_id: OperatorId, function: KeyedFunction[Rows, Frame], backend: StateBackend[Frame]
    ) -> None:
        super().__init__(operator_id, function, backend)
        self._function = function
        self._event_timers = DueTimers(TimeDomain.EVENT_TIME)
        self._processing_timers = DueTimers(TimeDomain.PROCESSING_TIME)

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        if watermark_ms == WATERMARK_MIN:
            return Output()
        return self._fired(self._event_timers, watermark_ms, watermark_ms, processing_time_ms)

    def advance_processing_time(self, processing_time_ms: int, watermark_ms: int) -> Output[Rows]:
        return self._fired(self._processing_timers, processing_time_ms, watermark_ms, processing_time_ms)

    @property
    def next_timer_ms(self) -> int | None:
        arrived = (segment for segment in self._arrived.values() if segment is not None)
        return self._processing_timers.first_ms([*self.store.segments.live, *arrived])

    def _fired(self, timers: DueTimers, due_ms: int, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        """Fire due timers. Without due timers, the function is called only if it sees watermarks."""
        self.store.await_restored()
        live = self.store.segments.live
        first_ms = timers.first_ms(live)
        must_call = timers is self._event_timers and self._function.sees_watermarks
        if not must_call and (first_ms is None or first_ms > due_ms):
            return Output()
        firing = TimerFiring(
            domain=timers.domain,
            due_ms=due_ms,
            after_ms=timers.fired_ms,
            after_version=timers.fired_version,
            watermark_ms=watermark_ms,
            processing_time_ms=processing_time_ms,
        )
        read_to = max((segment.version for segment in live), default=0)
        result = self.compute(lambda readings, version: self._function.fired(firing, readings, version))

        def on_emitted() -> None:
            outcome = result.outcome()
            timers.on_fired(due_ms, read_to, outcome.next_timer_ms)
            self.store.add(outcome.segment)

        return Output(rows=result.rows, side=result.side, on_emitted=on_emitted, sent=result.sent)
