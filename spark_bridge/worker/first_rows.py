"""The first rows of each key by an order, as a function of tables: what a batch changes among them is emitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.key_numbers import key_numbers
from flykka.spark_bridge.worker.keys import Rows

FIRST_ROWS = "rows"
"""The column of state with the first rows of a key, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """A column that rows are ordered by."""

    column: str
    is_descending: bool
    nulls_first: bool


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
        order = self._order(both, key_of)
        numbers = _counted(key_of[order])
        first, number = order[numbers <= self.limit], numbers[numbers <= self.limit]
        before = np.concatenate([_counted(key_of_kept), np.zeros(fresh.num_rows, np.int64)])
        is_news = before[first] != number
        emitted = both.take(first[is_news]).select(list(self.emitted))
        emitted = emitted.append_column(self.number, pa.array(number[is_news], pa.int32()))
        return emitted, keys.append_column(FIRST_ROWS, self._lists(both.take(first), key_of[first], lists))

    def _order(self, rows: pa.Table, key_of: Rows) -> Rows:
        """The rows of each key together, in their order."""
        columns: dict[str, Any] = {"key": key_of}
        sorting = [("key", "ascending")]
        for place, each in enumerate(self.orders):
            values = rows.column(each.column)
            direction = "descending" if each.is_descending else "ascending"
            columns[f"null{place}"] = pc.is_null(values).cast(pa.int8())
            sorting.append((f"null{place}", "descending" if each.nulls_first else "ascending"))
            if pa.types.is_floating(values.type):
                # NaN is the greatest number for Spark; Arrow has it beside the nulls.
                columns[f"nan{place}"] = pc.fill_null(pc.is_nan(values), False).cast(pa.int8())
                sorting.append((f"nan{place}", direction))
            columns[f"value{place}"] = values
            sorting.append((f"value{place}", direction))
        columns["place"] = np.arange(len(key_of))
        table = pa.table(columns)
        sorted_rows: Rows = pc.sort_indices(table, [*sorting, ("place", "ascending")]).to_numpy().astype(np.int64)
        return sorted_rows

    def _lists(self, rows: pa.Table, key_of: Rows, before: Any) -> Any:
        """The rows of each key as a list."""
        offsets = np.concatenate([[0], np.cumsum(np.bincount(key_of, minlength=len(before)))])
        fields = [column.combine_chunks() for column in rows.columns]
        structs = pa.StructArray.from_arrays(fields, fields=list(rows.schema))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs).cast(before.type)


def _counted(keys: Rows) -> Rows:
    """The number of each element among those that are equal to it and stand together, from 1."""
    if not len(keys):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counted: Rows = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys)))) + 1
    return counted
