"""The window aggregation of one attempt: it folds batches in, fires windows, and says what a snapshot has to write.

Folding costs no Spark job. State is a set of immutable segments (`state/segments.py`); they are merged when they fire,
and by sixteens when many live. What this object does with its segments happens in the order of the stages, but for the
notes about snapshots, which come from the background thread: hence the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flykka.messages.batch import BatchRef
from flykka.messages.exchange import WATERMARK_MIN
from flykka.messages.ids import BatchId
from flykka.spark_bridge.aggregates import WINDOW
from flykka.spark_bridge.batches import Batch
from flykka.spark_bridge.stages.materialise import (
    Materialised,
    counted,
    estimated_bytes,
    materialise,
    numbers_of,
    together,
)
from flykka.spark_bridge.stages.windows import (
    MICROS_PER_MS,
    before,
    between,
    by_window,
    event_time,
    fired,
    in_windows,
    local_state,
    start_numbers,
)
from flykka.spark_bridge.state.segments import Reading, Segment, Segments, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from flykka.messages.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.batches import BatchStore
    from flykka.spark_bridge.code import WindowCode
    from flykka.spark_bridge.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.scope import AttemptScope

_MERGE_AT = 16
_ROWS_OF_ONE_CORE = 1_000_000
"""Up to so many rows of state are merged faster by one core than shuffled to several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A batch that was looked at: what is kept of it, and how many input rows came too late and are dropped.

    Where late rows go to a side output none is dropped, and `late` has them; None where there are none.
    """

    segment: Segment[DataFrame] | None
    late_rows: int = 0
    late: DataFrame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAtBarrier:
    """The state as it was at a barrier; all segments are held under `holder` until the snapshot lets go."""

    emitted_to_ms: int | None
    durable: tuple[Written, ...]
    to_write: tuple[Reading[DataFrame], ...]
    holder: str

    @property
    def held(self) -> tuple[BatchId, ...]:
        """The segments that are to be written."""
        return tuple(reading.segment.batch_id for reading in self.to_write)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringRows:
    """Windows to be computed: a plan, and the segments that may be let go afterwards.

    All that it reads is held under `holder` until then: a merge may replace segments meanwhile.
    """

    rows: DataFrame
    finished: tuple[BatchId, ...]
    read: tuple[BatchId, ...]
    holder: str


class WindowOperator:
    """The windows of one attempt."""

    def __init__(
        self, code: WindowCode, descriptor: TaskDeploymentDescriptor, scope: AttemptScope, store: BatchStore
    ) -> None:
        self.code = code
        self._descriptor = descriptor
        self._scope = scope
        self._store = store
        self._holder = f"{descriptor.attempt} state"
        self._lock = Lock()
        self._segments: Segments[DataFrame] = Segments(code.windows)
        self._made = 0
        self._firings = 0

    def restore(self, emitted_to_ms: int | None, rows: DataFrame | None, written: Written) -> None:
        """Begin with the state of a checkpoint; `rows` is what `written` holds."""
        self._segments = Segments(self.code.windows, emitted_to_ms)
        if rows is None:
            return
        from_ms = None if emitted_to_ms is None else self.code.windows.next_start(emitted_to_ms)
        made = materialise(self._scope, between(rows, from_ms, None), start_numbers())
        segment = self._keep(made, level=1, written=written)
        if segment is not None:
            self._segments.add(segment)

    def look_at(self, ref: BatchRef, rows: DataFrame, watermark_ms: int) -> Arrived:
        """Make state of a batch, without what is late: rows whose last window is closed.

        Only where rows may be late, or are no state, it costs a job.
        """
        closed_to = self._closed_to(watermark_ms)
        if WINDOW not in rows.columns:
            return self._state_of(rows, closed_to)
        first, last = ref.event_time_min, ref.event_time_max
        assert first is not None, f"the state {ref.batch_id} does not say of which panes it is"
        assert last is not None, f"the state {ref.batch_id} does not say of which panes it is"
        if closed_to is not None and first < self.code.windows.next_start(closed_to):
            late = before(F.col(WINDOW), self.code.windows.next_start(closed_to))
            behind, observed = counted(rows, {"late": self.code.plan.rows_behind(late)})
            made = materialise(self._scope, observed.where(~late), start_numbers())
            return Arrived(segment=self._keep(made, closed_to=closed_to), late_rows=_late_rows(behind))
        self._store.hold(ref.batch_id, self._holder)
        segment = Segment(
            batch_id=ref.batch_id,
            frame=rows,
            rows=ref.rows,
            first_ms=first,
            last_ms=last - self.code.windows.slide_ms + 1,
            closed_to_ms=self._closed_of(first, closed_to),
        )
        return Arrived(segment=segment)

    def fold(self, arrived: Arrived) -> None:
        """Take a batch into the state, in the order of the stages."""
        if arrived.segment is None:
            return
        with self._lock:
            self._segments.add(arrived.segment)
            merging = self._segments.mergeable(_MERGE_AT)
            readings = [self._segments.reading(segment) for segment in merging]
        if merging:
            self._merge(merging, readings)

    def fire(self, watermark_ms: int) -> FiringRows | None:
        """Fire what the watermark fires; None where there is nothing. The rows are computed by the caller."""
        if watermark_ms == WATERMARK_MIN:
            return None
        with self._lock:
            to_ms = self.code.windows.last_fired_start(watermark_ms)
            firing = self._segments.fire(to_ms)
            if not firing.readings:
                return None
            self._firings += 1
            holder = f"{self._descriptor.attempt} firing {self._firings}"
            read = tuple(reading.segment.batch_id for reading in firing.readings)
            for batch_id in read:
                self._store.hold(batch_id, holder)
        rows = fired(self.code, read_windows(self.code.windows, firing.readings, to_ms))
        return FiringRows(rows=rows, finished=firing.finished, read=read, holder=holder)

    def let_go(self, firing: FiringRows) -> None:
        """The windows of a firing are computed."""
        self._store.release(firing.read, firing.holder)
        self._store.release(firing.finished, self._holder)

    def at_barrier(self, checkpoint_id: int) -> StateAtBarrier:
        """The state as it is now, for a snapshot."""
        holder = f"{self._descriptor.attempt} snapshot {checkpoint_id}"
        with self._lock:
            live = self._segments.live
            state = StateAtBarrier(
                emitted_to_ms=self._segments.emitted_to_ms,
                durable=tuple({segment.written: None for segment in live if segment.written and segment.is_durable}),
                to_write=tuple(self._segments.reading(segment) for segment in live if not segment.is_durable),
                holder=holder,
            )
            for batch_id in state.held:
                self._store.hold(batch_id, holder)
        return state

    def written(self, state: StateAtBarrier, written: Written | None) -> None:
        """The snapshot has written what it had to, or (None) given up."""
        if written is not None:
            with self._lock:
                self._segments.mark_written(state.held, written)
        self._store.release(state.held, state.holder)

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""
        with self._lock:
            self._segments.confirm(checkpoint_id)

    def _closed_to(self, watermark_ms: int) -> int | None:
        """Windows that start at this time or before are closed, fired or not; None: none is."""
        emitted = self._segments.emitted_to_ms
        if watermark_ms == WATERMARK_MIN:
            return emitted
        closed = self.code.windows.last_fired_start(watermark_ms)
        return closed if emitted is None else max(closed, emitted)

    def _state_of(self, rows: DataFrame, closed_to: int | None) -> Arrived:
        """State of rows that come as they are, in one job."""
        rows = in_windows(self.code, rows)
        if closed_to is None:
            return Arrived(segment=self._keep(materialise(self._scope, local_state(self.code, rows), start_numbers())))
        late = before(event_time(self.code), self.code.windows.next_start(closed_to))
        behind, observed = counted(rows, {"late": F.count_if(late)})
        made = materialise(self._scope, local_state(self.code, observed.where(~late)), start_numbers())
        segment, late_rows = self._keep(made, closed_to=closed_to), _late_rows(behind)
        if self.code.side_outputs_late_data:
            return Arrived(segment=segment, late=rows.where(late) if late_rows else None)
        return Arrived(segment=segment, late_rows=late_rows)

    def _closed_of(self, first_ms: int, closed_to: int | None) -> int | None:
        """The bound to be noted for panes from `first_ms` on, where some of their windows are closed."""
        return closed_to if closed_to is not None and first_ms < self.code.windows.end_of_last(closed_to) else None

    def _merge(self, merging: tuple[Segment[DataFrame], ...], readings: Sequence[Reading[DataFrame]]) -> None:
        made = materialise(self._scope, self.code.plan.merge(read_segments(readings)), start_numbers())
        merged = self._keep(made, level=merging[0].level + 1, closed_to=merging[0].closed_to_ms)
        assert merged is not None, "a live segment has rows that some window needs"
        with self._lock:
            self._segments.replace(merging, merged)
        self._store.release((segment.batch_id for segment in merging), self._holder)

    def _keep(
        self, made: Materialised, *, level: int = 0, closed_to: int | None = None, written: Written | None = None
    ) -> Segment[DataFrame] | None:
        """A segment of rows made here; None, and nothing is kept, where there are no rows."""
        first, last = _starts(made)
        if first is None or last is None:
            made.blocks.free()
            return None
        with self._lock:
            self._made += 1
            batch_id = BatchId(f"{self._descriptor.attempt}/state.{self._made}")
        size = estimated_bytes(made.frame.schema, made.rows)
        ref = BatchRef(batch_id=batch_id, rows=made.rows, size_bytes=size)
        batch = Batch(ref=ref, frame=made.frame, holder=self._holder)
        self._store.put(made.blocks, [batch], job_id=self._descriptor.job_id, producer=self._descriptor.attempt)
        return Segment(
            batch_id=batch_id,
            frame=made.frame,
            rows=made.rows,
            first_ms=first,
            last_ms=last,
            level=level,
            closed_to_ms=self._closed_of(first, closed_to),
            written=written,
        )


def read_segments(readings: Sequence[Reading[DataFrame]]) -> DataFrame:
    """The rows of segments within their bounds, by pane."""
    return _gathered(_panes(readings), readings)


def read_windows(windows: EventTimeWindows, readings: Sequence[Reading[DataFrame]], to_ms: int) -> DataFrame:
    """The rows of segments by window, up to the windows that start at `to_ms`."""
    alike: dict[int | None, list[Reading[DataFrame]]] = {}
    for reading in readings:
        alike.setdefault(reading.closed_to_ms, []).append(reading)
    rows = [by_window(windows, _panes(some), closed_to, to_ms) for closed_to, some in alike.items()]
    return _gathered(together(rows), readings)


def _panes(readings: Iterable[Reading[DataFrame]]) -> DataFrame:
    return together([between(reading.segment.frame, reading.from_ms, reading.until_ms) for reading in readings])


def _gathered(rows: DataFrame, readings: Iterable[Reading[DataFrame]]) -> DataFrame:
    """Where they are few, in one partition, which is merged unshuffled."""
    return rows.coalesce(1) if sum(reading.segment.rows for reading in readings) <= _ROWS_OF_ONE_CORE else rows


def _late_rows(observation: Observation) -> int:
    return int(numbers_of(observation).get("late") or 0)


def _starts(made: Materialised) -> tuple[int | None, int | None]:
    return _in_ms(made.numbers.get("first_micros")), _in_ms(made.numbers.get("last_micros"))


def _in_ms(micros: Any) -> int | None:
    return None if micros is None else int(micros) // MICROS_PER_MS
