"""Functions of tables over changes of rows by key: they store the current row of each key, and emit retracted rows.

Rows of kind `-D` and `-U` (Flink's RowKind) remove the row of their key; all others replace it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from flykka.spark_bridge.worker.keys import Mask, Rows, key_numbers, same_rows
from flykka.spark_bridge.worker.rows import structs

ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeChanges:
    """Stores the row of each key, and also emits the replaced row with each change (Flink's ChangelogNormalize).

    Input rows have the `columns`, followed by their kind if `row_kind` is set. Results have the `columns` followed by
    the kind in the column `emitted_kind`, and `-U` precedes `+U`. Rows that change nothing are not emitted.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    row_kind: str | None
    emitted_kind: str

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        rows = _without_kind(rows, self.row_kind, UPDATE_BEFORE)
        keys = state.select(list(self.keys))
        last = np.full(state.num_rows, -1)
        # If a key has several rows, numpy stores the last.
        last[key_numbers(keys, rows.select(list(self.keys)))] = np.arange(rows.num_rows)
        touched = np.flatnonzero(last >= 0)
        keys, changes = keys.take(touched), rows.take(last[touched])
        before = state.column(ROW).combine_chunks().take(pa.array(touched))
        olds = pa.Table.from_arrays(before.flatten(), names=list(self.columns))
        news = changes.select(list(self.columns)).cast(olds.schema)
        had = before.is_valid().to_numpy(zero_copy_only=False)
        is_gone = is_kind(changes, self.row_kind, DELETE)
        is_new = ~is_gone & ~(had & same_rows(olds, news))
        is_old = had & (is_gone | is_new)
        emitted = _interleaved(
            _with_kind(olds, is_old, np.where(is_gone, DELETE, UPDATE_BEFORE), self.emitted_kind),
            _with_kind(news, is_new, np.where(had, UPDATE_AFTER, INSERT), self.emitted_kind),
            np.concatenate([np.flatnonzero(is_old), np.flatnonzero(is_new)]),
        )
        return emitted, keys.append_column(ROW, structs(news, pa.array(is_gone)).cast(before.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedLists:
    """The rows of some keys, in the order of their changes. `key_of` contains each row's key number."""

    rows: pa.Table
    key_of: Rows

    @classmethod
    def of(cls, lists: pa.ListArray, columns: Sequence[str]) -> KeyedLists:
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        rows = pa.Table.from_arrays(lists.flatten().flatten(), names=list(columns))
        return cls(rows=rows, key_of=np.repeat(np.arange(len(counts)), counts))

    def lists(self, like: pa.ListArray) -> pa.ListArray:
        """Return the rows of each key as a list, with the type of `like`; null for a key without rows."""
        counts = np.bincount(self.key_of, minlength=len(like))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        mask = pa.array(counts == 0)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs(self.rows), mask=mask).cast(like.type)


def is_kind(rows: pa.Table, row_kind: str | None, kind: str) -> Mask:
    """Return a mask of the rows of a kind. `row_kind` is the column with their kinds; None if all rows are inserts."""
    if row_kind is None:
        return np.zeros(rows.num_rows, np.bool_)
    is_equal = pc.fill_null(pc.equal(rows.column(row_kind), kind), False)
    return np.asarray(is_equal.to_numpy(), dtype=np.bool_)


def _without_kind(rows: pa.Table, row_kind: str | None, kind: str) -> pa.Table:
    return rows if row_kind is None else rows.filter(pa.array(~is_kind(rows, row_kind, kind)))


def _with_kind(rows: pa.Table, chosen: Mask, kinds: Any, name: str) -> pa.Table:
    return rows.append_column(name, pa.array(kinds, pa.string())).filter(pa.array(chosen))


def _interleaved(olds: pa.Table, news: pa.Table, key_of: Rows) -> pa.Table:
    return pa.concat_tables([olds, news]).take(np.argsort(key_of, kind="stable"))
