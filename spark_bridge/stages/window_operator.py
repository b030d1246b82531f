"""The window aggregation of one attempt: it folds batches in, fires windows, and says what a snapshot has to write.

Folding costs no Spark job. State is a set of immutable segments (`state/segments.py`); they are merged when they fire,
and by sixteens when many live. What this object does with its segments happens in the order of the stages, but for the
notes about snapshots, which come from the background thread: hence the lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from flykka.messages.batch import BatchRef
from flykka.messages.exchange import WATERMARK_MIN
from flykka.messages.ids import BatchId
from flykka.spark_bridge.aggregates import WINDOW
from flykka.spark_bridge.batches import Batch
from flykka.spark_bridge.stages.materialise import Materialised, estimated_bytes, materialise, together
from flykka.spark_bridge.stages.windows import (
    MICROS_PER_MS,
    between,
    fired,
    last_fired_start,
    local_state,
    start_numbers,
)
from flykka.spark_bridge.state.segments import Reading, Segment, Segments, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.batches import BatchStore
    from flykka.spark_bridge.code import WindowCode
    from flykka.spark_bridge.scope import AttemptScope

_MERGE_AT = 16
_ROWS_OF_ONE_CORE = 1_000_000
"""Up to so many rows of state are merged faster by one core than shuffled to several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A batch that was looked at: what is kept of it, and how many input rows came too late."""

    segment: Segment[DataFrame] | None
    late_rows: int = 0


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
        self._segments: Segments[DataFrame] = Segments()
        self._made = 0
        self._firings = 0

    def restore(self, emitted_to_ms: int | None, rows: DataFrame | None, written: Written) -> None:
        """Begin with the state of a checkpoint; `rows` is what `written` holds."""
        self._segments = Segments(emitted_to_ms)
        if rows is None:
            return
        made = materialise(self._scope, between(rows, emitted_to_ms, None), start_numbers())
        segment = self._keep(made, level=1, written=written)
        if segment is not None:
            self._segments.add(segment)

    def look_at(self, ref: BatchRef, rows: DataFrame, watermark_ms: int) -> Arrived:
        """Make state of a batch, without what is late. Only where rows may be late, or are no state, it costs a job."""
        made: Materialised | None = None
        if WINDOW not in rows.columns:
            made = materialise(self._scope, local_state(self.code, rows), start_numbers())
            rows, first, last = made.frame, *_starts(made)
        else:
            first, last = ref.event_time_min, ref.event_time_max
            last = None if last is None else last - self.code.size_ms + 1
        if first is None or last is None:
            return Arrived(segment=None if made is None else self._keep(made))
        bound = self._late_bound(watermark_ms)
        if bound is not None and first <= bound:
            return self._without_late(rows, bound, made)
        if made is not None:
            return Arrived(segment=self._keep(made))
        self._store.hold(ref.batch_id, self._holder)
        segment = Segment(batch_id=ref.batch_id, frame=rows, rows=ref.rows, first_ms=first, last_ms=last)
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
            firing = self._segments.fire(last_fired_start(self.code, watermark_ms))
            if not firing.readings:
                return None
            self._firings += 1
            holder = f"{self._descriptor.attempt} firing {self._firings}"
            read = tuple(reading.segment.batch_id for reading in firing.readings)
            for batch_id in read:
                self._store.hold(batch_id, holder)
        rows = fired(self.code, read_segments(firing.readings))
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

    def _late_bound(self, watermark_ms: int) -> int | None:
        """Windows that start at this time or before are closed."""
        emitted = self._segments.emitted_to_ms
        if watermark_ms == WATERMARK_MIN:
            return emitted
        closed = last_fired_start(self.code, watermark_ms)
        return closed if emitted is None else max(closed, emitted)

    def _without_late(self, rows: DataFrame, bound: int, whole: Materialised | None) -> Arrived:
        behind = self.code.plan.rows_behind()
        self._scope.check()
        late = between(rows, None, bound).agg(behind).first()
        made = materialise(self._scope, between(rows, bound, None), start_numbers())
        if whole is not None:
            whole.blocks.free()
        return Arrived(segment=self._keep(made), late_rows=int(late[0] or 0) if late is not None else 0)

    def _merge(self, merging: tuple[Segment[DataFrame], ...], readings: Iterable[Reading[DataFrame]]) -> None:
        made = materialise(self._scope, self.code.plan.merge(read_segments(readings)), start_numbers())
        merged = self._keep(made, level=merging[0].level + 1)
        assert merged is not None, "a live segment has rows above the bound"
        with self._lock:
            self._segments.replace(merging, merged)
        self._store.release((segment.batch_id for segment in merging), self._holder)

    def _keep(self, made: Materialised, level: int = 0, written: Written | None = None) -> Segment[DataFrame] | None:
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
            written=written,
        )


def read_segments(readings: Iterable[Reading[DataFrame]]) -> DataFrame:
    """The rows of segments within their bounds; where they are few, in one partition, which is merged unshuffled."""
    chosen = tuple(readings)
    rows = together([between(reading.segment.frame, reading.after_ms, reading.to_ms) for reading in chosen])
    return rows.coalesce(1) if sum(reading.segment.rows for reading in chosen) <= _ROWS_OF_ONE_CORE else rows


def _starts(made: Materialised) -> tuple[int | None, int | None]:
    return _in_ms(made.numbers.get("first_micros")), _in_ms(made.numbers.get("last_micros"))


def _in_ms(micros: Any) -> int | None:
    return None if micros is None else int(micros) // MICROS_PER_MS
