"""The window aggregation of one attempt: keeps rows by pane until their windows fire (Flink's WindowOperator)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

from flykka.actors.machines.state.keyed_state import RestoredKeyedState
from flykka.actors.machines.state.segments import Frame, Reading, Segment
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.actors.machines.windows.window_segments import Firing, WindowSegments
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output, Rows
from flykka.spark_bridge.operators.state_backend import StateBackend

LATE_DATA = "late-data"
"""The side output of the rows that came too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(Generic[Rows, Frame]):
    """A batch that has come to windows: what is kept of it, and how many input rows were late.

    A row is late when its last window is closed (in Flink's words, when `isWindowLate` holds for each of its windows).
    `late` are such rows, where a side output has them, and `results` what is emitted of them at once.
    """

    segment: Segment[Frame] | None
    late_rows: int = 0
    late: Rows | None = None
    results: Rows | None = None


class Panes(Protocol[Rows, Frame]):
    """Cuts rows into windows and computes results, in an engine."""

    def arrived(self, element: Element[Rows], closed_to_ms: int | None) -> Arrived[Rows, Frame]:
        """Make state of a batch, where windows that start at `closed_to_ms` or before are closed (None: none is)."""

    def fired(self, readings: Sequence[Reading[Frame]], to_ms: int) -> Rows:
        """The results of the windows that start at `to_ms` or before."""


class WindowOperator(KeyedOperator[Rows, Frame]):
    """The windows of one attempt. Its only state has no name."""

    def __init__(
        self,
        operator_id: OperatorId,
        windows: EventTimeWindows,
        panes: Panes[Rows, Frame],
        backend: StateBackend[Frame],
    ) -> None:
        self._windows = windows
        self._panes = panes
        self._segments: WindowSegments[Frame] = WindowSegments(windows)
        self._store = KeyedStore(backend, self._segments)
        self._arrived: dict[int, Segment[Frame] | None] = {}
        self._emitted_to: dict[int, int | None] = {}
        super().__init__(operator_id, {"": self._store})

    def restore_bounds(self, restored: RestoredKeyedState) -> None:
        """Windows that had fired do not fire again."""
        self._segments.emitted_to_ms = restored.emitted_to_ms

    def process(self, element: Element[Rows]) -> Output[Rows]:
        """Make state of a batch, without what is late when the watermark is there."""
        closed_to = self._segments.closed_at(element.watermark_ms)
        arrived = self._panes.arrived(element, closed_to)
        segment = arrived.segment
        if segment is not None:
            segment = replace(segment, closed_to_ms=self._segments.bound_of(segment, closed_to))
        self._arrived[element.stage] = segment
        return Output(
            rows=arrived.results,
            side={} if arrived.late is None else {LATE_DATA: arrived.late},
            late_rows=lambda: arrived.late_rows,
            updates_state=True,
        )

    def update_state(self, stage: int) -> None:
        """Add the batch of a stage to the state."""
        self._store.add(self._arrived.pop(stage))

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        """Fire the windows that the watermark closes."""
        if watermark_ms == WATERMARK_MIN:
            return Output()
        to_ms, finished = self._windows.last_fired_start(watermark_ms), list[BatchId]()

        def fire() -> Sequence[Reading[Frame]]:
            firing: Firing[Frame] = self._segments.fire(to_ms)
            finished.extend(firing.finished)
            return firing.readings

        readings, release = self._store.held(fire)

        def on_emitted() -> None:
            release()
            self._store.backend.release(finished)

        return Output(rows=self._panes.fired(readings, to_ms) if readings else None, on_emitted=on_emitted)

    def snapshot(self, checkpoint_id: int, *, everything: bool) -> None:
        """Note the state, and how far windows have fired."""
        super().snapshot(checkpoint_id, everything=everything)
        emitted = self._segments.emitted_to_ms
        # A job that was drained is at the end of event time. What goes on from there begins event time again, as in
        # Flink: else all rows to come were late.
        self._emitted_to[checkpoint_id] = None if emitted == WATERMARK_MAX else emitted

    def emitted_to(self, checkpoint_id: int) -> int | None:
        """Return the time up to which windows had fired at the barrier."""
        return self._emitted_to.pop(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """Let go of what was noted."""
        super().discard_snapshot(checkpoint_id)
        del self._emitted_to[checkpoint_id]
