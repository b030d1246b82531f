"""The first rows of each key by an order, as a function of tables: what a batch changes among them is emitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import RowOrder, counted_in_keys, in_order, key_numbers
from flykka.spark_bridge.worker.row_changes import KeyedLists

FIRST_ROWS = "rows"
"""The column of state with the first rows of a key, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """Keeps the first `limit` rows of each key; of those that are equal in the orders, the ones that came first.

    It emits the columns `emitted` of a row, and behind them its number from 1, whenever another row than before has the
    number: so what it emits are upserts by the keys and the number.
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
        kept = KeyedLists.of(lists, self.columns)
        fresh = rows.select(list(self.columns)).cast(kept.rows.schema)
        both = pa.concat_tables([kept.rows, fresh])
        key_of = np.concatenate([kept.key_of, key_numbers(keys, rows.select(list(self.keys)))])
        order = in_order(both, key_of, self.orders)
        numbers = counted_in_keys(key_of[order])
        first, number = order[numbers <= self.limit], numbers[numbers <= self.limit]
        before = np.concatenate([counted_in_keys(kept.key_of), np.zeros(fresh.num_rows, np.int64)])
        is_news = before[first] != number
        emitted = both.take(first[is_news]).select(list(self.emitted))
        emitted = emitted.append_column(self.number, pa.array(number[is_news], pa.int32()))
        kept = KeyedLists(rows=both.take(first), key_of=key_of[first])
        return emitted, keys.append_column(FIRST_ROWS, kept.lists(lists))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOfValues:
    """Replaces each of the columns `conditions`, of booleans, by whether the row is the first of its key to be true.

    State has a column of that name, which is true once that row has come. An aggregate of the rows that are marked is
    one of distinct keys.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    conditions: tuple[str, ...]

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        key_of = key_numbers(state.select(list(self.keys)), rows.select(list(self.keys)))
        marked, kept = rows.select(list(self.columns)), state
        for name in self.conditions:
            seen = pc.fill_null(state.column(name), False).to_numpy(zero_copy_only=False)
            is_true = pc.fill_null(rows.column(name), False).to_numpy(zero_copy_only=False)
            fresh = np.flatnonzero(is_true & ~seen[key_of])
            found, places = np.unique(key_of[fresh], return_index=True)
            marks, now = np.zeros(len(key_of), np.bool_), seen.copy()
            marks[fresh[places]], now[found] = True, True
            marked = marked.set_column(marked.column_names.index(name), name, pa.array(marks))
            kept = kept.set_column(kept.column_names.index(name), name, pa.array(now))
        return marked, kept
