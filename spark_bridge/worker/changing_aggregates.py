"""Aggregates of rows that change, computed again of all rows of a key when one of them changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.worker.changing_results import ChangingResults
from flykka.spark_bridge.worker.keys import Rows, numbers_of_rows
from flykka.spark_bridge.worker.parts import PartFunction, reduced
from flykka.spark_bridge.worker.row_changes import KeyedLists


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """A function of a column, perhaps of its distinct values: the `count` of those that are not null, and the `value`.

    Where only the count is asked for, `function` is None and there is no value.
    """

    argument: str
    is_distinct: bool
    count: str
    value: str
    function: PartFunction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatesOfChangingRows(ChangingResults):
    """The `calls` for each key that has rows, behind the columns `emitted`, which are alike in all rows of a key."""

    calls: tuple[AggregateCall, ...]

    def _results(self, rows: KeyedLists) -> pa.Table:
        numbers, first = np.unique(rows.key_of, return_index=True)
        results: dict[str, Any] = {name: rows.rows.column(name).take(first) for name in self.emitted}
        for call in self.calls:
            results |= _computed(call, rows.rows.column(call.argument), rows.key_of, numbers)
        return pa.table(results)


def _computed(call: AggregateCall, argument: pa.ChunkedArray, key_of: Rows, numbers: Rows) -> dict[str, Any]:
    there = np.flatnonzero(argument.is_valid().to_numpy())
    values = pa.table({"key": key_of[there], "value": argument.take(there)})
    if call.is_distinct:
        _, first = np.unique(numbers_of_rows(values), return_index=True)
        values = values.take(np.sort(first))
    counts = np.bincount(values["key"].to_numpy(), minlength=numbers.max(initial=-1) + 1)[numbers]
    computed = {call.count: pa.array(counts)}
    if call.function is not None:
        has_values = counts > 0
        of_each = _of_each(call.function, values, int(has_values.sum()))
        computed[call.value] = of_each.take(pa.array(np.cumsum(has_values) - 1, mask=~has_values))
    return computed


def _of_each(function: PartFunction, values: pa.Table, keys: int) -> pa.ChunkedArray:
    """The sum, the least or the greatest value of each of so many keys."""
    if function is PartFunction.SUM:
        # Of a wider type than the values, as Spark's sum.
        return values.group_by("key", use_threads=False).aggregate([("value", "sum")])["value_sum"]
    return reduced(function, values["value"], values["key"].to_numpy(), keys)
