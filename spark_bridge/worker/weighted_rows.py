"""Changing rows as weights, and the index of rows that operators over changing rows store as state.

The weight of a row is how many times it is added, or removed if the weight is negative. The sum of all changes is the
current content: a multiset, in which the weight of a row is its count. This is the model of DBSP.

In the index, each row is a key with its weight as state. The key begins with the columns of the index key, by which
rows are found, followed by the side of a join to which the row belongs, and the row's columns. The position of a row
begins with the hash of its index key (`ROW_BITS`), so all rows of an index key are adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Mask, Rows, key_columns, key_numbers, numbers_of_rows
from flykka.spark_bridge.worker.outputs import emitted_batches
from flykka.spark_bridge.worker.process_batch import KeyedBatch, KeyedWork, Processed
from flykka.spark_bridge.worker.segment_file import IS_DELETED, VERSION, Segment, newest
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE

WEIGHT = "__weight"

ROW_BITS = 27
"""The number of low bits of a position that distinguish rows of an index key. The bits above belong to the index
key.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRows:
    """Distinct rows, their weights, and for each row the number of its index key in the batch."""

    rows: pa.Table
    weights: Rows
    key_of: Rows

    def sorted_by_key(self) -> WeightedRows:
        return self.taken(np.argsort(self.key_of, kind="stable"))

    def taken(self, places: Rows) -> WeightedRows:
        return WeightedRows(rows=self.rows.take(places), weights=self.weights[places], key_of=self.key_of[places])

    def __add__(self, other: WeightedRows) -> WeightedRows:
        """Add the weights of equal rows. Rows whose weights add up to zero are dropped."""
        rows = pa.concat_tables([self.rows, other.rows])
        key_of = np.concatenate([self.key_of, other.key_of])
        numbers = numbers_of_rows(rows.append_column("key number", pa.array(key_of)))
        weights = np.zeros(numbers.max(initial=-1) + 1, np.int64)
        np.add.at(weights, numbers, np.concatenate([self.weights, other.weights]))
        _, first = np.unique(numbers, return_index=True)
        present = np.flatnonzero(weights)
        return WeightedRows(rows=rows.take(first[present]), weights=weights[present], key_of=key_of[first[present]])

    def present(self) -> WeightedRows:
        """Return the rows with a positive weight: without rows that were removed before they were added."""
        return self.taken(np.flatnonzero(self.weights > 0))

    def __neg__(self) -> WeightedRows:
        return WeightedRows(rows=self.rows, weights=-self.weights, key_of=self.key_of)

    def table(self) -> pa.Table:
        return self.rows.append_column(WEIGHT, pa.array(self.weights))

    def repeated(self) -> pa.Table:
        return self.rows.take(np.repeat(np.arange(len(self.weights)), np.maximum(self.weights, 0)))


class WeightedFunction(Protocol):
    """Returns the changes of the results that a batch causes.

    `keys` are the index keys of the batch, `before` their rows before the batch. With `keeps_empty`, the last row of a
    key stays, with weight 0.
    """

    @property
    def keeps_empty(self) -> bool: ...

    def results(self, keys: pa.Table, before: WeightedRows, changes: WeightedRows) -> pa.Table: ...


def written_at(time_to_live_ms: int) -> str:
    """Return the state column with the processing time at which a row was written, in ms.

    It has its own name for each time-to-live, because rows that another one has left in state may be of any age.
    """
    return f"__written_at_{time_to_live_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToLive:
    """Forgets all rows of an index key `ms` after the last of them was written.

    If a key is changed, its rows that are as old are written again. So a row that is twice as old belongs to a
    forgotten key, and can be removed when segments are merged, even if some of the key's rows are in other segments.

    Rows that were stored without this time-to-live count as written at `since_ms` until their key is changed. A
    negative weight that was written by version `settled` or before is ignored: a barrier has arrived since then, so the
    removed row was not delayed, but forgotten.
    """

    ms: int
    now_ms: int
    since_ms: int
    settled: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Mark rows of forgotten keys as deleted, when segments are merged."""
        is_gone = (self._times(rows) + 2 * self.ms <= self.now_ms) | self._is_void(rows)
        is_deleted = pa.array(rows.column(IS_DELETED).to_numpy() | is_gone)
        return rows.set_column(rows.column_names.index(IS_DELETED), IS_DELETED, is_deleted)

    def divided(self, stored: pa.Table, key_of: Rows) -> tuple[Mask, Mask]:
        """Return which rows are not forgotten, and which must be written again, or deleted if they are forgotten.

        `stored` has all rows of its keys, and `key_of` the numbers of the keys.
        """
        is_old, is_void = self._times(stored) + self.ms <= self.now_ms, self._is_void(stored)
        is_live = np.isin(key_of, key_of[~is_old & ~is_void]) & ~is_void
        return is_live, is_old | is_void | stored.column(written_at(self.ms)).is_null().to_numpy()

    def _is_void(self, rows: pa.Table) -> Mask:
        is_settled = rows.column(VERSION).to_numpy() <= self.settled
        return np.asarray(is_settled & (rows.column(WEIGHT).to_numpy() < 0), np.bool_)

    def _times(self, rows: pa.Table) -> Rows:
        times: Rows = pc.fill_null(rows.column(written_at(self.ms)), self.since_ms).to_numpy()
        return times


def rows_of_keys(segments: Sequence[Segment], positions: Rows, schema: pa.Schema) -> pa.Table:
    """Return the rows of the index keys at these distinct positions, in which the row bits are zero.

    `segments` are ordered from the oldest to the newest. Other keys that share such a position are returned as well.
    """
    parts = [schema.empty_table()]
    for segment in segments:
        for run in segment:
            starts = np.searchsorted(run.positions, positions)
            counts = np.searchsorted(run.positions, positions + (1 << ROW_BITS)) - starts
            if total := int(counts.sum()):
                within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
                parts.append(run.table.take(np.repeat(starts, counts) + within).cast(schema))
    rows = newest(pa.concat_tables(parts))
    return rows.filter(pc.invert(rows.column(IS_DELETED)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessChanges(KeyedWork):
    """Applies weighted rows to the index, and emits the results of `function`.

    The first `index_keys` key columns are the index key, the others are the row. The batch has its weights in `WEIGHT`.
    With a time-to-live the function must not keep empty keys.
    """

    index_keys: int
    function: WeightedFunction
    time_to_live: TimeToLive | None = None

    def _processed(self, rows: pa.Table, segments: list[Segment]) -> Iterator[pa.RecordBatch]:
        batch = KeyedBatch(rows)
        names = key_columns(batch.keys)
        index_names, row_names = names[: self.index_keys], names[self.index_keys :]
        stored = rows_of_keys(segments, np.unique(batch.positions >> ROW_BITS) << ROW_BITS, self.schema)
        keys, key_of = _distinct(batch.keys.select(index_names))
        key_of_stored = key_numbers(keys, stored.select(index_names))
        is_touched = np.flatnonzero(key_of_stored >= 0)
        stored, key_of_stored = stored.take(is_touched), key_of_stored[is_touched]
        weights = stored.column(WEIGHT).to_numpy()
        is_rewritten = np.zeros(len(weights), np.bool_)
        if self.time_to_live is not None:
            is_live, is_rewritten = self.time_to_live.divided(stored, key_of_stored)
            weights = np.where(is_live, weights, 0)
            batch = KeyedBatch(pa.concat_tables([rows, _unchanged(stored.filter(is_rewritten), rows.schema)]))
            key_of = key_numbers(keys, batch.keys.select(index_names))
        deltas = np.add.reduceat(batch.rows.column(WEIGHT).to_numpy(), batch.starts)
        place = key_numbers(stored.select(names), batch.keys.select(names))
        now = deltas + np.where(place < 0, 0, np.append(weights, 0)[place])
        changed = np.flatnonzero((deltas != 0) | np.append(is_rewritten, False)[place])
        if self.function.keeps_empty and not len(weights) and not len(changed):
            changed = np.zeros(1, np.int64)
        state = pa.table({WEIGHT: now[changed]})
        if (ttl := self.time_to_live) is not None:
            state = state.append_column(written_at(ttl.ms), pa.array(np.full(len(changed), ttl.now_ms)))
        deleted = now[changed] == 0
        if self.function.keeps_empty and weights.sum() + deltas.sum() == 0:
            deleted[:1] = False
        processed = Processed(rows=state, state=state, changed=changed, deleted=deleted)
        before = WeightedRows(rows=stored.select(row_names), weights=weights, key_of=key_of_stored)
        emitted = self.function.results(
            keys,
            before if self.time_to_live is None else before.taken(np.flatnonzero(weights)),
            WeightedRows(rows=batch.keys.select(row_names), weights=deltas, key_of=key_of).taken(
                np.flatnonzero(deltas)
            ),
        )
        control = pa.array([[*self._written(batch, processed), None, 0]], CONTROL_TYPE)
        yield from emitted_batches(emitted, {CONTROL: control})


def _unchanged(stored: pa.Table, schema: pa.Schema) -> pa.Table:
    no_change = pa.array(np.zeros(stored.num_rows, np.int64))
    return stored.set_column(stored.column_names.index(WEIGHT), WEIGHT, no_change).select(schema.names).cast(schema)


def _distinct(keys: pa.Table) -> tuple[pa.Table, Rows]:
    _, first, numbers = np.unique(numbers_of_rows(keys), return_index=True, return_inverse=True)
    return keys.take(first), numbers
