"""The order of rows within their keys, as Spark sorts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """A column that rows are ordered by."""

    column: str
    is_descending: bool
    nulls_first: bool


def in_order(rows: pa.Table, key_of: Rows, orders: Sequence[RowOrder]) -> Rows:
    """The rows of each key together, in their order; those that are equal in it as they stand."""
    columns: dict[str, Any] = {"key": key_of}
    sorting = [("key", "ascending")]
    for place, each in enumerate(orders):
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


def counted_in_keys(keys: Rows) -> Rows:
    """The number of each element among those that are equal to it and stand together, from 1."""
    if not len(keys):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counted: Rows = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys)))) + 1
    return counted
