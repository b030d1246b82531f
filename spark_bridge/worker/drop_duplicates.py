"""Drops rows whose keys have occurred before, at any time or within a duration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.functions.times import MICROS_PER_MS, first_micros_of
from flykka.spark_bridge.worker.keys import Rows
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.time_columns import MICROS, micros

SEEN_AT = "seen_at"
"""The state column for drops within a duration: the event time of the key's last emitted row."""

IS_SEEN = "is_seen"
"""The state column for drops without a duration: true."""

_BOUNDS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDuplicates:
    columns: tuple[str, ...]

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        new: Rows = np.flatnonzero(pc.is_null(state.column(IS_SEEN)).to_numpy())
        new_state = pa.Table.from_arrays([pa.array(np.ones(len(new), dtype=np.bool_))], schema=state.schema)
        rows = batch.rows.select(self.columns).take(batch.starts[new])
        return Processed(rows=rows, state=new_state, changed=new)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDuplicatesWithin:
    """Emits a row unless a row of its key less than `within_ms` before or after it has been emitted.

    A key expires when the watermark is `within_ms` later than its row. Rows before the watermark are dropped as late,
    because the keys of their duplicates may have expired. A row without event time gets the time of the watermark.
    """

    columns: tuple[str, ...]
    event_time: EventTime
    within_ms: int
    watermark_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        watermark, within = first_micros_of(self.watermark_ms), MICROS_PER_MS * self.within_ms
        event_times = batch.rows.column(self.event_time.column)
        keys, times = batch.key_of_row(), _times(event_times, watermark, self.event_time.offset_ms)
        is_late = (times <= watermark) & event_times.is_valid().to_numpy()
        in_time = np.flatnonzero(~is_late)
        closed_to = _times(state.column(SEEN_AT), _BOUNDS.min)
        closed_to[closed_to > _BOUNDS.min] += within
        emitted = in_time[_first_rows(keys[in_time], times[in_time], closed_to, within)]
        has_emitted = np.zeros(len(closed_to), dtype=np.bool_)
        has_emitted[keys[emitted]] = True
        changed: Rows = np.flatnonzero(has_emitted & (closed_to > watermark))
        seen_at = pa.array(closed_to[changed] - within).cast(MICROS)
        return Processed(
            rows=batch.rows.select(self.columns).take(emitted),
            state=pa.Table.from_arrays([seen_at], schema=state.schema),
            changed=changed,
            late_rows=int(is_late.sum()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDuplicates:
    """Removes expired keys when segments are merged: keys whose row is `within_ms` or more before the watermark.

    It writes no tombstones, because the keys are removed from older segments in the same way.
    """

    within_ms: int
    watermark_ms: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        expired_to = first_micros_of(self.watermark_ms - self.within_ms)
        seen_at = _times(rows.column(SEEN_AT), _BOUNDS.min)
        return rows.filter(pa.array(seen_at > expired_to))


def _first_rows(keys: Rows, times: Rows, closed_to: Rows, within: int) -> Rows:
    """Return the indices of the rows to emit: in each key, the rows with times not before the key's `closed_to`.

    Each emitted row advances `closed_to` of its key by `within`. `keys` are sorted.
    """
    emitted: list[Rows] = []
    remaining = np.arange(len(keys))
    while len(remaining := remaining[times[remaining] >= closed_to[keys[remaining]]]):
        is_first = np.append(True, keys[remaining][1:] != keys[remaining][:-1])
        first, remaining = remaining[is_first], remaining[~is_first]
        closed_to[keys[first]] = times[first] + within
        emitted.append(first)
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *emitted]))


def _times(column: pa.ChunkedArray, without: int, offset_ms: int = 0) -> Rows:
    return np.array(pc.fill_null(micros(column, offset_ms), without).to_numpy(), dtype=np.int64)
