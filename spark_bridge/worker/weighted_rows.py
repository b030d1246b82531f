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

from flykka.spark_bridge.worker.keys import Rows, key_columns, key_numbers, numbers_of_rows
from flykka.spark_bridge.worker.outputs import emitted_batches
from flykka.spark_bridge.worker.process_batch import KeyedBatch, KeyedWork, Processed
from flykka.spark_bridge.worker.segment_file import IS_DELETED, Segment, newest
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
    """

    index_keys: int
    function: WeightedFunction

    def _processed(self, rows: pa.Table, segments: list[Segment]) -> Iterator[pa.RecordBatch]:
        batch = KeyedBatch(rows)
        deltas = np.add.reduceat(batch.rows.column(WEIGHT).to_numpy(), batch.starts)
        names = key_columns(batch.keys)
        index_names, row_names = names[: self.index_keys], names[self.index_keys :]
        stored = rows_of_keys(segments, np.unique(batch.positions >> ROW_BITS) << ROW_BITS, self.schema)
        keys, key_of = _distinct(batch.keys.select(index_names))
        key_of_stored = key_numbers(keys, stored.select(index_names))
        is_touched = np.flatnonzero(key_of_stored >= 0)
        stored, key_of_stored = stored.take(is_touched), key_of_stored[is_touched]
        weights = stored.column(WEIGHT).to_numpy()
        place = key_numbers(stored.select(names), batch.keys.select(names))
        now = deltas + np.where(place < 0, 0, np.append(weights, 0)[place])
        changed = np.flatnonzero(deltas)
        if self.function.keeps_empty and not len(weights) and not len(changed):
            changed = np.zeros(1, np.int64)
        state = pa.table({WEIGHT: now[changed]})
        deleted = now[changed] == 0
        if self.function.keeps_empty and weights.sum() + deltas.sum() == 0:
            deleted[:1] = False
        processed = Processed(rows=state, state=state, changed=changed, deleted=deleted)
        emitted = self.function.results(
            keys,
            WeightedRows(rows=stored.select(row_names), weights=weights, key_of=key_of_stored),
            WeightedRows(rows=batch.keys.select(row_names), weights=deltas, key_of=key_of).taken(changed),
        )
        control = pa.array([[*self._written(batch, processed), None, 0]], CONTROL_TYPE)
        yield from emitted_batches(emitted, {CONTROL: control})


def _distinct(keys: pa.Table) -> tuple[pa.Table, Rows]:
    _, first, numbers = np.unique(numbers_of_rows(keys), return_index=True, return_inverse=True)
    return keys.take(first), numbers
