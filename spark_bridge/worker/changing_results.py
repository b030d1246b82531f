"""Recomputes the results of a key when one of its rows changes, and emits the differences.

These are functions of tables: each batch has changes of rows, and results are upserts and deletes by their own keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import (
    Mask,
    RowOrder,
    Rows,
    counted_in_keys,
    in_order,
    key_numbers,
    numbers_of_rows,
)
from flykka.spark_bridge.worker.parts import EXACT_DIGITS, Overflow, PartFunction, reduced
from flykka.spark_bridge.worker.row_changes import KeyedLists, changes_between

ROWS, LEFT_ROWS, RIGHT_ROWS = "rows", "left_rows", "right_rows"
"""The columns of state with the rows of a key, and with those of the two sides of a join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingResults(ABC):
    """Results over the changing rows of each of the `keys`.

    `row_keys` identify the rows of a key, and `row_kind` is the column of their kinds, if there is one. Results have
    one row for each of their `result_keys`, with the columns `emitted` of rows, and their kind in `emitted_kind`.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    row_keys: tuple[str, ...]
    row_kind: str | None
    result_keys: tuple[str, ...]
    emitted_kind: str
    emitted: tuple[str, ...]

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        keys = state.select(list(self.keys))
        lists = state.column(ROWS).combine_chunks()
        before = KeyedLists.of(lists, self.columns)
        key_of = key_numbers(keys, rows.select(list(self.keys)))
        after = before.changed(rows, key_of, self.row_keys, self.row_kind)
        emitted = changes_between(self._results(before), self._results(after), self.result_keys, self.emitted_kind)
        return emitted, keys.append_column(ROWS, after.lists(lists))

    @abstractmethod
    def _results(self, rows: KeyedLists) -> pa.Table: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOfChangingRows(ChangingResults):
    """The first `limit` rows of each key by their `orders`: the columns `emitted`, and then their number from 1."""

    orders: tuple[RowOrder, ...]
    limit: int
    number: str

    def _results(self, rows: KeyedLists) -> pa.Table:
        order = in_order(rows.rows, rows.key_of, self.orders)
        numbers = counted_in_keys(rows.key_of[order])
        is_first = numbers <= self.limit
        first = rows.rows.take(order[is_first]).select(list(self.emitted))
        return first.append_column(self.number, pa.array(numbers[is_first], pa.int32()))


class FrameFunction(StrEnum):
    """A function over the rows of a frame."""

    COUNT = "count"
    SUM = "sum"
    AVERAGE = "avg"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCall:
    """A function of a number column over the `preceding` rows and the current row; the result column is `name`.

    `overflow` selects the result of a sum that is too large, and `sql` is the call as shown in errors.
    """

    function: FrameFunction
    argument: str
    preceding: int
    name: str
    overflow: Overflow = Overflow.ERROR
    sql: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverChangingRows(ChangingResults):
    """Functions over frames of rows, `OVER (... ROWS BETWEEN n PRECEDING AND CURRENT ROW)`, added to the columns
    `emitted`.

    The rows of a key are ordered by `orders`.
    """

    orders: tuple[RowOrder, ...]
    calls: tuple[FrameCall, ...]

    def _results(self, rows: KeyedLists) -> pa.Table:
        order = in_order(rows.rows, rows.key_of, self.orders)
        ordered, numbers = rows.rows.take(order), counted_in_keys(rows.key_of[order])
        results = ordered.select(list(self.emitted))
        for call in self.calls:
            results = results.append_column(call.name, _of_frames(call, ordered.column(call.argument), numbers))
        return results


def _of_frames(call: FrameCall, argument: pa.ChunkedArray, numbers: Rows) -> Any:
    """Return the value of a call for each row. Frames are added up from their first row on, as Spark does."""
    is_there = argument.is_valid().to_numpy()
    # An average is computed in doubles, in which no sum of integers is too large.
    is_whole = pa.types.is_integer(argument.type) and call.function is not FrameFunction.AVERAGE
    kind = pa.int64() if is_whole else pa.float64()
    values = pc.fill_null(argument.cast(kind, safe=False), pa.scalar(0, kind)).to_numpy()
    counts, sums = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), values.dtype)
    is_too_large = np.zeros(len(numbers), np.bool_)
    for back in range(min(call.preceding, int(numbers.max(initial=1)) - 1), -1, -1):
        has = np.flatnonzero(numbers > back)
        counts[has] += is_there[has - back]
        previous, new = sums[has], values[has - back]
        sums[has] = added = previous + new
        if is_whole:
            is_too_large[has] |= ((previous ^ added) & (new ^ added)) < 0
    if call.function is FrameFunction.COUNT:
        return pa.array(counts)
    if call.function is FrameFunction.SUM:
        return _within_type(pa.array(sums, mask=counts == 0), is_too_large, call.overflow, call.sql)
    with np.errstate(invalid="ignore"):
        return pa.array(sums / counts, pa.float64(), mask=counts == 0)


def _within_type(sums: Any, is_too_large: Mask, overflow: Overflow, sql: str) -> Any:
    if overflow is Overflow.WRAP or not is_too_large.any():
        return sums
    if overflow is Overflow.NULL:
        return pc.if_else(pa.array(is_too_large), None, sums)
    raise OverflowError(too_large(sql, sums.type))


def too_large(sql: str, data_type: object) -> str:
    """The error of a sum that its type cannot hold, for a call as users write it."""
    return (
        f"[ARITHMETIC_OVERFLOW] {sql} is too large for its type, {data_type}: cast its argument to a wider one, or call"
        " try_sum, which is null there"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSideRows:
    """The changing rows of a side of a join: its columns, and those that identify a row."""

    columns: tuple[str, ...]
    row_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinChanges:
    """Joins the changing rows of two sides with equal `keys`; nulls match nothing.

    Rows have the columns of both sides, and the number of their side (0 or 1) in the column `side`. `kind` is that of
    SQL joins: outer joins emit unmatched rows of a side too, with nulls for the other; `semi` and `anti` joins emit the
    left rows with and without a match.
    """

    keys: tuple[str, ...]
    side: str
    left: JoinSideRows
    right: JoinSideRows
    kind: str
    row_kind: str
    result_keys: tuple[str, ...]
    emitted_kind: str

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        keys = state.select(list(self.keys))
        key_of = key_numbers(keys, rows.select(list(self.keys)))
        is_right = np.asarray(rows.column(self.side).to_numpy(), np.bool_)
        new_state = keys
        before, after = [], []
        sides = ((LEFT_ROWS, self.left, ~is_right), (RIGHT_ROWS, self.right, is_right))
        for name, side, mine in sides:
            lists = state.column(name).combine_chunks()
            before.append(KeyedLists.of(lists, side.columns))
            after.append(before[-1].changed(rows.filter(pa.array(mine)), key_of[mine], side.row_keys, self.row_kind))
            new_state = new_state.append_column(name, after[-1].lists(lists))
        meets = np.ones(keys.num_rows, np.bool_)
        for column in keys.columns:
            meets &= column.is_valid().to_numpy()
        was, now = (self._results(left, right, meets) for left, right in (before, after))
        return changes_between(was, now, self.result_keys, self.emitted_kind), new_state

    def _results(self, left: KeyedLists, right: KeyedLists, meets: Mask) -> pa.Table:
        ones, others = _pairs(left.key_of, right.key_of, meets)
        if self.kind in ("semi", "anti"):
            has_met = np.isin(np.arange(left.rows.num_rows), ones)
            return left.rows.filter(pa.array(has_met if self.kind == "semi" else ~has_met))
        if self.kind in ("left", "full"):
            alone = np.setdiff1d(np.arange(left.rows.num_rows), ones)
            ones, others = np.append(ones, alone), np.append(others, np.full(len(alone), -1))
        if self.kind in ("right", "full"):
            alone = np.setdiff1d(np.arange(right.rows.num_rows), others)
            ones, others = np.append(ones, np.full(len(alone), -1)), np.append(others, alone)
        columns = [*_taken(left.rows, ones), *_taken(right.rows, others)]
        return pa.Table.from_arrays(columns, names=[*self.left.columns, *self.right.columns])


def _taken(rows: pa.Table, places: Rows) -> Sequence[Any]:
    """Return the columns of the rows at these places, null where a place is -1."""
    columns: Sequence[Any] = rows.take(pa.array(places, mask=places < 0)).columns
    return columns


def _pairs(left: Rows, right: Rows, meets: Mask) -> tuple[Rows, Rows]:
    """Return the places of all row pairs with equal keys; both sides are sorted by key; only keys in `meets` match."""
    first = np.searchsorted(right, left, side="left")
    counts = np.where(meets[left], np.searchsorted(right, left, side="right") - first, 0)
    ones = np.repeat(np.arange(len(left)), counts)
    starts = np.repeat(first, counts)
    within = np.arange(len(ones)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ones, starts + within


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """A function of a column, perhaps of its distinct values: columns `count` of non-null values, and `value`.

    If only the count is needed, `function` is None and there is no value. A sum of integers may be computed in
    `doubles`, for an average; `overflow` selects the result of one that is too large, and `sql` is the call as shown in
    errors.
    """

    argument: str
    is_distinct: bool
    count: str
    value: str
    function: PartFunction | None
    doubles: bool = False
    overflow: Overflow = Overflow.ERROR
    sql: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatesOfChangingRows(ChangingResults):
    """The `calls` for each key with rows, after the columns `emitted`, which are equal in all rows of a key."""

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
        of_each = _of_each(call, call.function, values, int(has_values.sum()))
        computed[call.value] = of_each.take(pa.array(np.cumsum(has_values) - 1, mask=~has_values))
    return computed


def _of_each(call: AggregateCall, function: PartFunction, values: pa.Table, keys: int) -> pa.ChunkedArray:
    """Return the sum, the least or the greatest value of each of `keys` keys."""
    if function is not PartFunction.SUM:
        return reduced(function, values["value"], values["key"].to_numpy(), keys)
    summands = values["value"]
    if call.doubles:
        summands = summands.cast(pa.float64(), safe=False)
    sums = _sums(values["key"], summands)
    if pa.types.is_integer(summands.type):
        least_greatest = pc.min_max(summands).as_py()
        if max(-(least_greatest["min"] or 0), least_greatest["max"] or 0) * len(summands) >= 2**63:
            exact = _sums(values["key"], summands.cast(pa.decimal256(76, 0)))
            is_too_large = pc.not_equal(exact, sums.cast(exact.type)).to_numpy()
            return _within_type(sums, is_too_large, call.overflow, call.sql)
    if pa.types.is_decimal(summands.type) and summands.type.precision > EXACT_DIGITS:
        exact = _sums(values["key"], summands.cast(pa.decimal256(76, summands.type.scale)))
        greatest = pa.scalar(Decimal((0, (9,) * 38, -summands.type.scale)), exact.type)
        is_too_large = pc.greater(pc.abs(exact), greatest).to_numpy()
        # Decimals do not wrap in Spark.
        overflow = Overflow.NULL if call.overflow is Overflow.WRAP else call.overflow
        return _within_type(sums, is_too_large, overflow, call.sql)
    return sums


def _sums(keys: pa.ChunkedArray, summands: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the sums of each key, of a wider type than the summands."""
    sums = pa.table({"key": keys, "value": summands}).group_by("key", use_threads=False).aggregate([("value", "sum")])
    return sums["value_sum"]
