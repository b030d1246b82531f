"""Finds the first rows of each key in a sort order, and emits the changes caused by each batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import RowOrder, counted_in_keys, in_order, key_numbers
from flykka.spark_bridge.worker.row_changes import KeyedLists

FIRST_ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """Stores the first `limit` rows of each key; earlier rows come first among rows with equal order.

    It emits the columns `emitted` of a row, followed by its number from 1, whenever the row with that number changes.
    So the output consists of upserts by key and number.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    orders: tuple[RowOrder, ...]
    limit: int
    emitted: tuple[str, ...]
    number: str

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        keys = state.select(list(self.keys))
        lists = state.column(FIRST_ROWS).combine_chunks()
        first_rows = KeyedLists.of(lists, self.columns)
        fresh = rows.select(list(self.columns)).cast(first_rows.rows.schema)
        both = pa.concat_tables([first_rows.rows, fresh])
        key_of = np.concatenate([first_rows.key_of, key_numbers(keys, rows.select(list(self.keys)))])
        order = in_order(both, key_of, self.orders)
        numbers = counted_in_keys(key_of[order])
        first, number = order[numbers <= self.limit], numbers[numbers <= self.limit]
        before = np.concatenate([counted_in_keys(first_rows.key_of), np.zeros(fresh.num_rows, np.int64)])
        is_news = before[first] != number
        emitted = both.take(first[is_news]).select(list(self.emitted))
        emitted = emitted.append_column(self.number, pa.array(number[is_news], pa.int32()))
        first_rows = KeyedLists(rows=both.take(first), key_of=key_of[first])
        return emitted, keys.append_column(FIRST_ROWS, first_rows.lists(lists))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOfValues:
    """Replaces each boolean column of `conditions`: true only for the first row of its key for which it is true.

    State has a column of that name, which is true once there has been such a row. So an aggregate of the marked rows is
    an aggregate over distinct keys.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    conditions: tuple[str, ...]

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        key_of = key_numbers(state.select(list(self.keys)), rows.select(list(self.keys)))
        marked, new_state = rows.select(list(self.columns)), state
        for name in self.conditions:
            was_true = pc.fill_null(state.column(name), False).to_numpy(zero_copy_only=False)
            is_true = pc.fill_null(rows.column(name), False).to_numpy(zero_copy_only=False)
            fresh = np.flatnonzero(is_true & ~was_true[key_of])
            marked_keys, places = np.unique(key_of[fresh], return_index=True)
            marks, now = np.zeros(len(key_of), np.bool_), was_true.copy()
            marks[fresh[places]], now[marked_keys] = True, True
            marked = marked.set_column(marked.column_names.index(name), name, pa.array(marks))
            new_state = new_state.set_column(new_state.column_names.index(name), name, pa.array(now))
        return marked, new_state
