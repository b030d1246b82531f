"""The first rows of each key by an order, as a function of tables: what a batch changes among them is emitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Rows, key_numbers
from flykka.spark_bridge.worker.row_order import RowOrder, counted_in_keys, in_order

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
        """Put the rows of a batch among those that are kept."""
        keys = state.select(list(self.keys))
        lists = state.column(FIRST_ROWS).combine_chunks()
        kept = pa.Table.from_arrays(lists.flatten().flatten(), names=list(self.columns))
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        key_of_kept = np.repeat(np.arange(len(counts)), counts)
        fresh = rows.select(list(self.columns)).cast(kept.schema)
        both = pa.concat_tables([kept, fresh])
        key_of = np.concatenate([key_of_kept, key_numbers(keys, rows.select(list(self.keys)))])
        order = in_order(both, key_of, self.orders)
        numbers = counted_in_keys(key_of[order])
        first, number = order[numbers <= self.limit], numbers[numbers <= self.limit]
        before = np.concatenate([counted_in_keys(key_of_kept), np.zeros(fresh.num_rows, np.int64)])
        is_news = before[first] != number
        emitted = both.take(first[is_news]).select(list(self.emitted))
        emitted = emitted.append_column(self.number, pa.array(number[is_news], pa.int32()))
        return emitted, keys.append_column(FIRST_ROWS, self._lists(both.take(first), key_of[first], lists))

    def _lists(self, rows: pa.Table, key_of: Rows, before: Any) -> Any:
        offsets = np.concatenate([[0], np.cumsum(np.bincount(key_of, minlength=len(before)))])
        fields = [column.combine_chunks() for column in rows.columns]
        structs = pa.StructArray.from_arrays(fields, fields=list(rows.schema))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs).cast(before.type)
