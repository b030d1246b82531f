"""A time-based join of one attempt: each batch is joined with the state of the other side (Flink's
IntervalJoinOperator).

Unmatched rows of an outer side are emitted when the watermark has passed all their possible matches, as in Flink SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, Protocol

from flykka.actors.machines.joins.interval_segments import Interval, IntervalSegments
from flykka.actors.machines.state.keyed_state import RestoredKeyedState
from flykka.actors.machines.state.segments import Frame, Reading, ResultBounds, Segment
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output, Rows
from flykka.spark_bridge.operators.window import Arrived
from flykka.spark_bridge.state.state_backend import StateBackend


class Side(StrEnum):
    """A side of a join; also the name of its state."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> Side:
        return Side.RIGHT if self is Side.LEFT else Side.LEFT

    @property
    def late_data(self) -> str:
        return f"late-data-{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing(Generic[Frame]):
    side: Side
    readings: Sequence[Reading[Frame]]
    met: Sequence[Reading[Frame]]


class Joining(Protocol[Rows, Frame]):
    """Joins rows in an engine. With `meets_at_once`, each batch is joined with the earlier rows when it arrives."""

    meets_at_once: bool

    def arrived(self, side: Side, element: Element[Rows], closed_to_ms: int | None) -> Arrived[Rows, Frame]:
        """Convert a batch of a side to state, without late rows, whose times are before `closed_to_ms`."""

    def joined(self, side: Side, segment: Segment[Frame], met: Sequence[Reading[Frame]]) -> Rows: ...

    def closed(self, closings: Sequence[Closing[Frame]]) -> Rows:
        """Return the results of expired rows, for the sides that emit any."""


class JoinOperator(KeyedOperator[Rows, Frame]):
    def __init__(
        self,
        operator_id: OperatorId,
        interval: Interval,
        joining: Joining[Rows, Frame],
        backends: Callable[[Side, IntervalSegments[Frame]], StateBackend[Frame]],
        left_gates: int,
        outer: frozenset[Side] = frozenset(),
    ) -> None:
        """Create the join. The first `left_gates` gates belong to the left side. `outer` sides emit unmatched rows."""
        self._joining = joining
        self._left_gates = left_gates
        self._segments: dict[Side, IntervalSegments[Frame]] = {
            side: IntervalSegments(
                interval if side is Side.LEFT else interval.reversed,
                emits_unmatched=side in outer,
                other_emits_unmatched=side.other in outer,
            )
            for side in Side
        }
        self._stores = {
            side: KeyedStore(backends(side, segments), segments, side.value)
            for side, segments in self._segments.items()
        }
        self._bounds: dict[int, ResultBounds] = {}
        super().__init__(operator_id, {side.value: store for side, store in self._stores.items()})

    @property
    def is_ordered(self) -> bool:
        """Two batches of both sides that are processed at the same time would miss each other's rows."""
        return True

    def restore_bounds(self, restored: RestoredKeyedState) -> RestoredKeyedState:
        """Restore the expiry times, so that late rows stay late and expired rows are not emitted again."""
        for segments in self._segments.values():
            segments.closed_to_ms = restored.bounds.closed_to_ms
        return restored

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        side = Side.LEFT if element.gate < self._left_gates else Side.RIGHT
        store, other = self._stores[side], side.other
        time_ms = self._time_ms(element.watermark_ms, element.processing_time_ms)
        arrived = self._joining.arrived(side, element, self._segments[side].closed_at(time_ms))
        segment, rows, release = arrived.segment, None, _nothing
        if segment is not None and self._joining.meets_at_once:
            first_ms, last_ms = segment.first_ms, segment.last_ms
            met, release = self._stores[other].hold(lambda: self._segments[other].met(first_ms, last_ms))
            rows = self._joining.joined(side, segment, met) if met else None

        def on_emitted() -> None:
            release()
            store.add(segment)

        return Output(
            rows=rows,
            side={} if arrived.late is None else {side.late_data: arrived.late},
            late_rows=lambda: arrived.late_rows,
            on_emitted=on_emitted,
        )

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        time_ms = self._time_ms(watermark_ms, processing_time_ms)
        if time_ms == WATERMARK_MIN:
            return Output()
        releases: list[Callable[[], None]] = []
        closings = [closing for side in Side if (closing := self._closing(side, time_ms, releases)) is not None]
        finished = {side: self._close(side, time_ms) for side in Side}

        def on_emitted() -> None:
            for release in releases:
                release()
            for side, batch_ids in finished.items():
                self._stores[side].backend.release(batch_ids)

        return Output(rows=self._joining.closed(closings) if closings else None, on_emitted=on_emitted)

    def _time_ms(self, watermark_ms: int, processing_time_ms: int) -> int:
        return watermark_ms

    def _closing(self, side: Side, watermark_ms: int, releases: list[Callable[[], None]]) -> Closing[Frame] | None:
        readings, release = self._stores[side].hold(lambda: self._segments[side].closing(watermark_ms))
        releases.append(release)
        if not readings:
            return None
        first_ms = min(each.segment.first_ms for each in readings)
        last_ms = max(each.segment.last_ms for each in readings)
        met, release = self._stores[side.other].hold(lambda: self._segments[side.other].met(first_ms, last_ms))
        releases.append(release)
        return Closing(side=side, readings=readings, met=met)

    def _close(self, side: Side, watermark_ms: int) -> tuple[BatchId, ...]:
        finished: list[BatchId] = []

        def close() -> Sequence[Reading[Frame]]:
            finished.extend(self._segments[side].close(watermark_ms))
            return ()

        self._stores[side].hold(close)
        return tuple(finished)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        super().snapshot_state(checkpoint_id, everything=everything)
        closed_to = self._segments[Side.LEFT].closed_to_ms
        # After a drain the next execution begins event time again, as with windows.
        self._bounds[checkpoint_id] = ResultBounds(closed_to_ms=None if closed_to == WATERMARK_MAX else closed_to)

    def bounds_at(self, checkpoint_id: int) -> ResultBounds:
        return self._bounds.pop(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        super().discard_snapshot(checkpoint_id)
        del self._bounds[checkpoint_id]


class RegularJoinOperator(JoinOperator[Rows, Frame]):
    """A join of one attempt without a time condition, whose rows expire by processing time.

    Without a time-to-live rows never expire. Watermarks are not passed to this operator.
    """

    def _time_ms(self, watermark_ms: int, processing_time_ms: int) -> int:
        has_time = any(segments.has_end for segments in self._segments.values())
        return processing_time_ms if has_time else WATERMARK_MIN

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        output = super().process_batch(element)
        time_ms = self._time_ms(element.watermark_ms, element.processing_time_ms)
        if time_ms == WATERMARK_MIN:
            return output
        over = {side: self._close(side, time_ms) for side in Side}

        def on_emitted() -> None:
            if output.on_emitted is not None:
                output.on_emitted()
            for side, batch_ids in over.items():
                self._stores[side].backend.release(batch_ids)

        return replace(output, on_emitted=on_emitted)


def _nothing() -> None: ...
