"""The window aggregation of one attempt: it folds batches in, fires windows, and says what a snapshot has to write.

Folding costs no Spark job. State is a set of immutable segments (`state/segments.py`); they are merged when they fire,
and by sixteens when many live. What this object does with its segments happens in the order of the stages, but for the
notes about snapshots, which come from the background thread: hence the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.stages.arrivals import Arrived, look_at
from flykka.spark_bridge.stages.segment_blocks import SegmentBlocks, read_segments, read_windows
from flykka.spark_bridge.stages.windows import between, fired
from flykka.spark_bridge.state.segments import Reading, Segment, Segments, Unwritten, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.batch import BatchRef
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.messages.wire.ids import BatchId
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.program.code import WindowCode
    from flykka.spark_bridge.rows.batches import BatchStore

_MERGE_AT = 16
_LOOK_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAtBarrier:
    """The state as it was at a barrier; all segments are held under `holder` until the snapshot lets go.

    Each part of `to_write` is to be written by itself. `durable` says of each part which windows it is not for.
    """

    emitted_to_ms: int | None
    durable: Mapping[Written, int | None]
    to_write: tuple[Unwritten[DataFrame], ...]
    holder: str

    @property
    def held(self) -> tuple[BatchId, ...]:
        """The segments that are to be written."""
        return tuple(reading.segment.batch_id for part in self.to_write for reading in part.readings)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRows:
    """State of a checkpoint for the windows that start after `closed_to_ms` (None: for all); `read` plans its reading.

    `written` is where all of it lies, and no other rows do; None where others do, and it is to be written anew.
    """

    read: Callable[[], DataFrame]
    closed_to_ms: int | None
    written: Written | None


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
        self._attempt = descriptor.attempt
        self._scope = scope
        self._store = store
        self._blocks = SegmentBlocks(code.windows, descriptor, scope, store)
        self._lock = Lock()
        self._segments: Segments[DataFrame] = Segments(code.windows)
        self._restored: tuple[RestoredRows, ...] = ()
        self._is_restored: Future[None] = Future()
        self._firings = 0

    def restore(self, emitted_to_ms: int | None, parts: Iterable[RestoredRows]) -> None:
        """Begin with the state of a checkpoint, whose rows `read_restored` reads."""
        self._segments = Segments(self.code.windows, emitted_to_ms)
        self._restored = tuple(parts)

    @property
    def has_to_read(self) -> bool:
        """Whether there is restored state that is not read yet."""
        return bool(self._restored) and not self._is_restored.done()

    def read_restored(self) -> None:
        """Read the state that was restored; one Spark job for each part. Background work.

        Batches are folded in meanwhile, for they need nothing of it. Windows that fire wait for it, and so do
        snapshots.
        """
        try:
            self._read_restored()
        except BaseException as raised:
            self._is_restored.set_exception(raised)
            raise
        self._is_restored.set_result(None)

    def _read_restored(self) -> None:
        for part in self._restored:
            closed_to = part.closed_to_ms
            from_ms = None if closed_to is None else self.code.windows.next_start(closed_to)
            rows = between(part.read(), from_ms, None)
            segment = self._blocks.make(rows, level=1, closed_to=closed_to, written=part.written)
            if segment is not None:
                with self._lock:
                    self._segments.add(segment)

    def _await_restored(self) -> None:
        """Wait until all state is there. Raises what its reading has raised, or `AttemptCancelledError`."""
        while self.has_to_read:
            self._scope.check()
            with suppress(TimeoutError):
                self._is_restored.exception(_LOOK_AGAIN_SECONDS)
        if self._restored:
            self._is_restored.result()

    def look_at(self, ref: BatchRef, rows: DataFrame, watermark_ms: int) -> Arrived:
        """Make state of a batch, without what is late when the watermark is there."""
        return look_at(self.code, self._blocks, ref, rows, self._closed_to(watermark_ms))

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
        self._await_restored()
        with self._lock:
            to_ms = self.code.windows.last_fired_start(watermark_ms)
            firing = self._segments.fire(to_ms)
            if not firing.readings:
                return None
            self._firings += 1
            holder = f"{self._attempt} firing {self._firings}"
            read = tuple(reading.segment.batch_id for reading in firing.readings)
            self._store.hold(read, holder)
        rows = fired(self.code, read_windows(self.code.windows, firing.readings, to_ms))
        return FiringRows(rows=rows, finished=firing.finished, read=read, holder=holder)

    def let_go(self, firing: FiringRows) -> None:
        """The windows of a firing are computed."""
        self._store.release(firing.read, firing.holder)
        self._blocks.let_go(firing.finished)

    def at_barrier(self, checkpoint_id: int, *, everything: bool = False) -> StateAtBarrier:
        """The state as it is now, for a snapshot; `everything` of it is to be written where nothing is shared."""
        self._await_restored()
        holder = f"{self._attempt} snapshot {checkpoint_id}"
        with self._lock:
            emitted_to_ms = self._segments.emitted_to_ms
            state = StateAtBarrier(
                # A job that was drained is at the end of event time. For whoever goes on from there it begins anew, as
                # in Flink: else all rows to come were late.
                emitted_to_ms=None if emitted_to_ms == WATERMARK_MAX else emitted_to_ms,
                durable={} if everything else self._segments.durable(),
                to_write=self._segments.to_write(everything=everything),
                holder=holder,
            )
            self._store.hold(state.held, holder)
        return state

    def written(self, state: StateAtBarrier, written: Sequence[Written]) -> None:
        """The snapshot has written what it had to, part by part, or (nothing) given up."""
        with self._lock:
            for part, place in zip(state.to_write, written, strict=bool(written)):
                self._segments.mark_written([reading.segment.batch_id for reading in part.readings], place)
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

    def _merge(self, merging: tuple[Segment[DataFrame], ...], readings: Sequence[Reading[DataFrame]]) -> None:
        level, closed_to = merging[0].level + 1, merging[0].closed_to_ms
        merged = self._blocks.make(self.code.plan.merge(read_segments(readings)), level=level, closed_to=closed_to)
        with self._lock:
            self._segments.replace(merging, merged)
        self._blocks.let_go(segment.batch_id for segment in merging)
