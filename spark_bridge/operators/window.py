"""The window aggregation of one attempt: stores rows by pane until their windows fire (Flink's WindowOperator)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

from flykka.actors.machines.state.keyed_state import RestoredKeyedState
from flykka.actors.machines.state.segments import Frame, Reading, ResultBounds, Segment
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.actors.machines.windows.window_segments import WindowFiring, WindowSegments
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output, Rows
from flykka.spark_bridge.state.state_backend import StateBackend

LATE_DATA = "late-data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(Generic[Rows, Frame]):
    """The state of a batch that has arrived at windows, and the number of late input rows.

    A row is late if its last window has closed, the allowed lateness after its end (in Flink's terms, if `isWindowLate`
    holds for each of its windows). `late` contains the late rows if there is a side output for them, and `results` the
    results to emit at once.
    """

    segment: Segment[Frame] | None
    late_rows: int = 0
    late: Rows | None = None
    results: Rows | None = None


class Panes(Protocol[Rows, Frame]):
    def arrived(self, element: Element[Rows], closed_to_ms: int | None) -> Arrived[Rows, Frame]:
        """Convert a batch to state. Windows that start at `closed_to_ms` or before are closed (None: no window is
        closed).
        """

    def fired(self, readings: Sequence[Reading[Frame]], to_ms: int) -> Rows:
        """Return the results of the windows that start at `to_ms` or before, for keys with rows not emitted yet."""


class WindowAggregateOperator(KeyedOperator[Rows, Frame]):
    """The windows of one attempt. Their only state has no name.

    A window fires again for late rows within the allowed lateness: at once with `fires_late_rows_at_once`, which
    requires ordered batches, else the next time that windows fire.
    """

    def __init__(
        self,
        operator_id: OperatorId,
        windows: EventTimeWindows,
        panes: Panes[Rows, Frame],
        backend: StateBackend[Frame],
        allowed_lateness_ms: int = 0,
        *,
        fires_late_rows_at_once: bool = False,
    ) -> None:
        self._panes = panes
        self._fires_late_rows_at_once = fires_late_rows_at_once
        self._segments: WindowSegments[Frame] = WindowSegments(windows, allowed_lateness_ms)
        self._store = KeyedStore(backend, self._segments)
        self._arrived: dict[int, Segment[Frame] | None] = {}
        self._bounds: dict[int, ResultBounds] = {}
        super().__init__(operator_id, {"": self._store})

    @property
    def is_ordered(self) -> bool:
        return self._fires_late_rows_at_once

    def restore_bounds(self, restored: RestoredKeyedState) -> RestoredKeyedState:
        """Restore the bounds, so that windows that had fired do not fire again, except for late rows."""
        if not self._segments.allowed_lateness_ms:
            restored = restored.emitted_once()
        self._segments.emitted_to_ms = restored.bounds.emitted_to_ms
        self._segments.closed_to_ms = restored.bounds.closed_to_ms
        return restored

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        closed_to = self._segments.closed_at(element.watermark_ms)
        arrived = self._panes.arrived(element, closed_to)
        segment = arrived.segment
        if segment is not None:
            segment = replace(segment, closed_to_ms=self._segments.bound_of(segment, closed_to))
        output = Output(
            rows=arrived.results,
            side={} if arrived.late is None else {LATE_DATA: arrived.late},
            late_rows=lambda: arrived.late_rows,
        )
        if segment is not None and self._fires_late_rows_at_once and self._segments.is_late(segment):
            assert arrived.results is None, "late rows that are dropped have results"
            self._store.add(segment)
            again = self._fired(WATERMARK_MIN)
            return replace(output, rows=again.rows, on_emitted=again.on_emitted)
        self._arrived[element.stage] = segment
        return replace(output, updates_state=True)

    def update_state(self, stage: int) -> None:
        self._store.add(self._arrived.pop(stage))

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        if watermark_ms == WATERMARK_MIN and not self._segments.allowed_lateness_ms:
            return Output()
        return self._fired(watermark_ms)

    def _fired(self, watermark_ms: int) -> Output[Rows]:
        fired: list[WindowFiring[Frame]] = []

        def fire() -> Sequence[Reading[Frame]]:
            fired.append(self._segments.fire(watermark_ms))
            return fired[0].readings

        readings, release = self._store.hold(fire)
        (firing,) = fired

        def on_emitted() -> None:
            release()
            self._store.backend.release(firing.finished)

        return Output(rows=self._panes.fired(readings, firing.to_ms) if readings else None, on_emitted=on_emitted)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        super().snapshot_state(checkpoint_id, everything=everything)
        closed_to, emitted_to = self._segments.closed_to_ms, self._segments.emitted_to_ms
        bounds = ResultBounds(closed_to_ms=closed_to, emitted_to_ms=emitted_to)
        # After a drain, event time has reached its maximum. The next execution begins event time again, as in Flink:
        # otherwise all rows would be late.
        self._bounds[checkpoint_id] = ResultBounds() if emitted_to == WATERMARK_MAX else bounds

    def bounds_at(self, checkpoint_id: int) -> ResultBounds:
        return self._bounds.pop(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        super().discard_snapshot(checkpoint_id)
        del self._bounds[checkpoint_id]
