"""The rows of segments: where they lie, and how they are read.

A segment's rows are a batch in the store, one that was sent here or one that was made here, held as long as the state
needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from flykka.messages.tasks.batch import BatchRef
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.materialise import estimated_bytes, materialise, together
from flykka.spark_bridge.stages.windows import MICROS_PER_MS, between, by_window, start_numbers
from flykka.spark_bridge.state.segments import Reading, Segment, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.rows.batches import BatchStore

_ROWS_OF_ONE_CORE = 1_000_000
"""Up to so many rows of state are merged faster by one core than shuffled to several."""


class SegmentBlocks:
    """The rows of one attempt's segments. Safe to use from several threads."""

    def __init__(
        self,
        windows: EventTimeWindows,
        descriptor: TaskDeploymentDescriptor,
        scope: AttemptScope,
        store: BatchStore,
    ) -> None:
        self._windows = windows
        self._descriptor = descriptor
        self._scope = scope
        self._store = store
        self._holder = f"{descriptor.attempt} state"
        self._lock = Lock()
        self._made = 0

    def make(
        self, state: DataFrame, *, level: int = 0, closed_to: int | None = None, written: Written | None = None
    ) -> Segment[DataFrame] | None:
        """A segment of state that is computed now; None, and nothing is kept, where there are no rows."""
        made = materialise(self._scope, state, start_numbers())
        first, last = _in_ms(made.numbers.get("first_micros")), _in_ms(made.numbers.get("last_micros"))
        if first is None or last is None:
            made.blocks.free()
            return None
        with self._lock:
            self._made += 1
            batch_id = BatchId(f"{self._descriptor.attempt}/state.{self._made}")
        size = estimated_bytes(made.frame.schema, made.rows)
        ref = BatchRef(batch_id=batch_id, rows=made.rows, size_bytes=size)
        batch = Batch(ref=ref, frame=made.frame, holder=self._holder)
        self._store.put(made.blocks, [batch], producer=self._descriptor.attempt)
        return Segment(
            batch_id=batch_id,
            frame=made.frame,
            rows=made.rows,
            first_ms=first,
            last_ms=last,
            level=level,
            closed_to_ms=self._noted(closed_to, first),
            written=written,
        )

    def adopt(
        self, ref: BatchRef, state: DataFrame, *, first_ms: int, last_ms: int, closed_to: int | None
    ) -> Segment[DataFrame]:
        """A segment of a batch that is there already, with panes from `first_ms` to `last_ms`."""
        self._store.hold((ref.batch_id,), self._holder)
        return Segment(
            batch_id=ref.batch_id,
            frame=state,
            rows=ref.rows,
            first_ms=first_ms,
            last_ms=last_ms,
            closed_to_ms=self._noted(closed_to, first_ms),
        )

    def let_go(self, batch_ids: Iterable[BatchId]) -> None:
        """The state does not need these segments any more."""
        self._store.release(batch_ids, self._holder)

    def _noted(self, closed_to: int | None, first_ms: int) -> int | None:
        """The bound, where it closes some window of a pane from `first_ms` on."""
        return closed_to if closed_to is not None and first_ms < self._windows.end_of_last(closed_to) else None


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


def _in_ms(micros: Any) -> int | None:
    return None if micros is None else int(micros) // MICROS_PER_MS
