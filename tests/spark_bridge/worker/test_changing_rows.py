"""Tests functions on a changelog, batch by batch: they emit the changes from the last results to the current ones."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flykka.spark_bridge.worker.changing_results import (
    LEFT_ROWS,
    RIGHT_ROWS,
    ROWS,
    AggregateCall,
    AggregatesOfChangingRows,
    FirstOfChangingRows,
    FrameCall,
    FrameFunction,
    JoinChanges,
    JoinSideRows,
    OverChangingRows,
)
from flykka.spark_bridge.worker.keys import RowOrder
from flykka.spark_bridge.worker.parts import Overflow, PartFunction
from flykka.spark_bridge.worker.row_changes import ROW, NormalizeChanges

BY_N = (RowOrder(column="n", is_descending=False, nulls_first=True),)


class Kept:
    """A function and its state; each batch gets the state of its keys."""

    def __init__(self, function: Any, rows: pa.Schema, state: pa.Schema) -> None:
        self._function = function
        self._rows = rows
        self._state = state
        self._kept: dict[tuple[Any, ...], dict[str, Any]] = {}

    def batch(self, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return the rows that a batch emits."""
        table = pa.Table.from_pylist([dict(zip(self._rows.names, row, strict=True)) for row in rows], self._rows)
        keys = list(self._function.keys)
        keys_of_batch = dict.fromkeys(tuple(row[key] for key in keys) for row in table.select(keys).to_pylist())
        state = [self._kept.get(key, dict(zip(keys, key, strict=True))) for key in keys_of_batch]
        emitted, after = self._function(table, pa.Table.from_pylist(state, self._state))
        assert after.schema.equals(self._state)
        for row in after.to_pylist():
            self._kept[tuple(row[key] for key in keys)] = row
        return [tuple(row.values()) for row in emitted.to_pylist()]


COLUMNS = pa.schema([("key", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
CHANGES = COLUMNS.append(pa.field("kind", pa.string()))
ROWS_OF_KEY = pa.list_(pa.struct(list(COLUMNS)))


def test_an_updated_row_is_emitted_after_its_retraction() -> None:
    state = pa.schema([("id", pa.int64()), (ROW, pa.struct(list(COLUMNS)))])
    function = NormalizeChanges(keys=("id",), columns=tuple(COLUMNS.names), row_kind="kind", emitted_kind="said")
    changes = Kept(function, CHANGES, state)

    assert changes.batch(("a", 1, 1, "+I"), ("a", 2, 2, "+I"), ("b", 1, 3, "+U")) == [
        ("b", 1, 3, "+I"),
        ("a", 2, 2, "+I"),
    ]
    assert changes.batch(("b", 1, 3, "-U"), ("b", 1, 4, "+U"), ("a", 2, 2, "+U")) == [
        ("b", 1, 3, "-U"),
        ("b", 1, 4, "+U"),
    ]
    assert changes.batch(("b", 1, 9, "-D"), ("x", 7, 7, "-D")) == [("b", 1, 4, "-D")]
    assert changes.batch(("c", 1, 5, "+I")) == [("c", 1, 5, "+I")]


def test_the_first_rows_move_up_after_a_deletion() -> None:
    function = FirstOfChangingRows(
        keys=("key",),
        columns=tuple(COLUMNS.names),
        row_keys=("id",),
        row_kind="kind",
        result_keys=("key", "place"),
        emitted_kind="said",
        orders=BY_N,
        limit=2,
        emitted=("key", "id"),
        number="place",
    )
    first = Kept(function, CHANGES, pa.schema([("key", pa.string()), (ROWS, ROWS_OF_KEY)]))

    assert first.batch(("a", 1, 10, "+I"), ("a", 2, 5, "+I"), ("a", 3, 7, "+I")) == [
        ("a", 2, 1, "+I"),
        ("a", 3, 2, "+I"),
    ]
    assert first.batch(("a", 2, 5, "-D")) == [("a", 3, 1, "+U"), ("a", 1, 2, "+U")]
    assert first.batch(("a", 3, 0, "-D")) == [("a", 1, 2, "-D"), ("a", 1, 1, "+U")]
    assert first.batch(("a", 1, 0, "-D"), ("b", 1, 0, "+I")) == [("a", 1, 1, "-D"), ("b", 1, 1, "+I")]


def test_aggregates_equal_those_of_the_remaining_rows() -> None:
    greatest = AggregateCall(
        argument="n", is_distinct=False, count="values", value="greatest", function=PartFunction.MAX
    )
    distinct = replace(greatest, is_distinct=True, count="distinct", value="sum", function=PartFunction.SUM)
    function = AggregatesOfChangingRows(
        keys=("key",),
        columns=tuple(COLUMNS.names),
        row_keys=("id",),
        row_kind="kind",
        result_keys=("key",),
        emitted_kind="said",
        emitted=("key",),
        calls=(greatest, distinct),
    )
    aggregates = Kept(function, CHANGES, pa.schema([("key", pa.string()), (ROWS, ROWS_OF_KEY)]))

    assert aggregates.batch(("a", 1, 7, "+I"), ("b", 1, None, "+I"), ("a", 2, 7, "+I"), ("a", 3, 2, "+I")) == [
        ("a", 3, 7, 2, 9, "+I"),
        ("b", 0, None, 0, None, "+I"),
    ]
    assert aggregates.batch(("a", 1, 7, "-D")) == [("a", 2, 7, 2, 9, "+U")]
    assert aggregates.batch(("a", 2, 0, "-D"), ("b", 1, 4, "+U")) == [("a", 1, 2, 1, 2, "+U"), ("b", 1, 4, 1, 4, "+U")]
    assert aggregates.batch(("a", 3, 2, "-D")) == [("a", 1, 2, 1, 2, "-D")]


def test_all_rows_share_one_key_without_keys() -> None:
    counted = AggregateCall(argument="n", is_distinct=True, count="values", value="", function=None)
    function = AggregatesOfChangingRows(
        keys=("all",),
        columns=tuple(COLUMNS.names),
        row_keys=("id",),
        row_kind="kind",
        result_keys=(),
        emitted_kind="said",
        emitted=(),
        calls=(counted,),
    )
    changes = CHANGES.append(pa.field("all", pa.int64()))
    aggregates = Kept(function, changes, pa.schema([("all", pa.int64()), (ROWS, ROWS_OF_KEY)]))

    assert aggregates.batch(("a", 1, 7, "+I", 0), ("b", 2, 8, "+I", 0)) == [(2, "+I")]
    assert aggregates.batch(("b", 2, 7, "+U", 0)) == [(1, "+U")]
    assert aggregates.batch(("a", 1, 7, "-D", 0), ("b", 2, 7, "-D", 0)) == [(1, "-D")]


def test_frames_consist_of_a_row_and_its_predecessors() -> None:
    function = OverChangingRows(
        keys=("key",),
        columns=tuple(COLUMNS.names),
        row_keys=("id",),
        row_kind=None,
        result_keys=("key", "id"),
        emitted_kind="said",
        orders=(RowOrder(column="id", is_descending=False, nulls_first=True),),
        calls=(
            FrameCall(function=FrameFunction.SUM, argument="n", preceding=1, name="total"),
            FrameCall(function=FrameFunction.COUNT, argument="n", preceding=2, name="count"),
            FrameCall(function=FrameFunction.AVERAGE, argument="n", preceding=0, name="mean"),
        ),
        emitted=("key", "id"),
    )
    over = Kept(function, COLUMNS, pa.schema([("key", pa.string()), (ROWS, ROWS_OF_KEY)]))

    assert over.batch(("a", 1, 4), ("a", 3, 6)) == [("a", 1, 4, 1, 4.0, "+I"), ("a", 3, 10, 2, 6.0, "+I")]
    assert over.batch(("a", 2, None)) == [("a", 2, 4, 1, None, "+I"), ("a", 3, 6, 2, 6.0, "+U")]


LARGEST = 2**63 - 1
WIDEST = Decimal(10**38 - 1)


def sum_of(numbers: list[Any], kind: pa.DataType, overflow: Overflow, *, doubles: bool = False) -> Any:
    """Return the sum of the numbers of a key."""
    call = AggregateCall(
        argument="n",
        is_distinct=False,
        count="values",
        value="sum",
        function=PartFunction.SUM,
        doubles=doubles,
        overflow=overflow,
        sql="sum(n)",
    )
    names = ("key",)
    function = AggregatesOfChangingRows(
        keys=names,
        columns=("key", "id", "n"),
        row_keys=("id",),
        row_kind=None,
        result_keys=names,
        emitted_kind="said",
        emitted=names,
        calls=(call,),
    )
    columns = pa.schema([("key", pa.string()), ("id", pa.int64()), ("n", kind)])
    rows = Kept(function, columns, pa.schema([("key", pa.string()), (ROWS, pa.list_(pa.struct(list(columns))))]))
    ((_, _, total, _),) = rows.batch(*(("a", number, value) for number, value in enumerate(numbers)))
    return total


def frame_of(function: FrameFunction, overflow: Overflow) -> list[Any]:
    """Apply a function to frames of two rows for each of three rows; the sum of the first two rows overflows."""
    over = OverChangingRows(
        keys=("key",),
        columns=tuple(COLUMNS.names),
        row_keys=("id",),
        row_kind=None,
        result_keys=("key", "id"),
        emitted_kind="said",
        orders=(RowOrder(column="id", is_descending=False, nulls_first=True),),
        calls=(FrameCall(function=function, argument="n", preceding=1, name="n1", overflow=overflow, sql="sum(n)"),),
        emitted=("key", "id"),
    )
    rows = Kept(over, COLUMNS, pa.schema([("key", pa.string()), (ROWS, ROWS_OF_KEY)]))
    return [value for _, _, value, _ in rows.batch(("a", 1, LARGEST), ("a", 2, LARGEST), ("a", 3, -5))]


@pytest.mark.parametrize(
    ("numbers", "kind", "wrapped"),
    [([LARGEST, 7, LARGEST], pa.int64(), 5), ([WIDEST, Decimal(1)], pa.decimal128(38, 0), None)],
    ids=["integers", "decimals"],
)
def test_an_overflowing_sum_equals_sparks(numbers: list[Any], kind: pa.DataType, wrapped: Any) -> None:
    with pytest.raises(OverflowError, match=r"ARITHMETIC_OVERFLOW.* sum\(n\) is too large for its type"):
        sum_of(numbers, kind, Overflow.ERROR)
    assert sum_of(numbers, kind, Overflow.WRAP) == wrapped
    assert sum_of(numbers, kind, Overflow.NULL) is None
    assert sum_of([numbers[0], 1, -1], kind, Overflow.ERROR) == numbers[0]
    assert sum_of(numbers, kind, Overflow.ERROR, doubles=True) == sum(map(float, numbers))


def test_overflowing_frames_equal_sparks() -> None:
    with pytest.raises(OverflowError, match=r"ARITHMETIC_OVERFLOW.* sum\(n\) is too large for its type, int64"):
        frame_of(FrameFunction.SUM, Overflow.ERROR)
    assert frame_of(FrameFunction.SUM, Overflow.WRAP) == [LARGEST, -2, LARGEST - 5]
    assert frame_of(FrameFunction.SUM, Overflow.NULL) == [LARGEST, None, LARGEST - 5]
    assert frame_of(FrameFunction.AVERAGE, Overflow.ERROR) == [float(LARGEST), float(LARGEST), (float(LARGEST) - 5) / 2]


JOINED = pa.schema(
    [
        ("key", pa.int64()),
        ("side", pa.bool_()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("other", pa.int64()),
        ("kind", pa.string()),
    ]
)
LEFT = pa.list_(pa.struct([("id", pa.int64()), ("name", pa.string())]))
RIGHT = pa.list_(pa.struct([("other", pa.int64())]))


def join_of_kind(kind: str) -> Kept:
    function = JoinChanges(
        keys=("key",),
        side="side",
        left=JoinSideRows(columns=("id", "name"), row_keys=("id",)),
        right=JoinSideRows(columns=("other",), row_keys=("other",)),
        kind=kind,
        row_kind="kind",
        result_keys=("id",) if kind in ("semi", "anti") else ("id", "other"),
        emitted_kind="said",
    )
    return Kept(function, JOINED, pa.schema([("key", pa.int64()), (LEFT_ROWS, LEFT), (RIGHT_ROWS, RIGHT)]))


def left(key: int | None, number: int, name: str, kind: str = "+I") -> tuple[Any, ...]:
    return key, False, number, name, None, kind


def right(key: int | None, other: int, kind: str = "+I") -> tuple[Any, ...]:
    return key, True, None, None, other, kind


@pytest.mark.parametrize(
    ("kind", "first", "then", "last"),
    [
        ("inner", [], [(1, "a", 7, "+I")], [(1, "a", 7, "-D")]),
        (
            "left",
            [(1, "a", None, "+I"), (9, "z", None, "+I")],
            [(1, "a", None, "-D"), (1, "a", 7, "+I")],
            [(1, "a", 7, "-D"), (1, "a", None, "+I")],
        ),
        ("right", [], [(1, "a", 7, "+I")], [(1, "a", 7, "-D")]),
        (
            "full",
            [(1, "a", None, "+I"), (9, "z", None, "+I")],
            [(1, "a", None, "-D"), (1, "a", 7, "+I")],
            [(1, "a", 7, "-D"), (1, "a", None, "+I")],
        ),
        ("semi", [], [(1, "a", "+I")], [(1, "a", "-D")]),
        ("anti", [(1, "a", "+I"), (9, "z", "+I")], [(1, "a", "-D")], [(1, "a", "+I")]),
    ],
)
def test_a_join_emits_the_changes_from_a_row_of_either_side(
    kind: str, first: list[Any], then: list[Any], last: list[Any]
) -> None:
    rows = join_of_kind(kind)

    assert rows.batch(left(5, 1, "a"), left(None, 9, "z")) == first
    assert rows.batch(right(5, 7)) == then
    assert rows.batch(right(5, 7, "-D")) == last
    # A row added and removed within a batch never existed.
    assert rows.batch(right(5, 8), right(5, 8, "-D")) == []
    assert rows.batch(right(None, 8)) == ([(None, None, 8, "+I")] if kind in ("right", "full") else [])


def test_changes_in_random_batches_equal_all_changes_at_once() -> None:
    draw = np.random.default_rng(7)
    rows, whole = join_of_kind("full"), join_of_kind("full")
    now: dict[Any, Any] = {}
    everything: dict[tuple[bool, int], tuple[Any, ...]] = {}
    for _ in range(30):
        batch: list[tuple[Any, ...]] = []
        for _ in range(int(draw.integers(1, 6))):
            is_right, number = bool(draw.integers(2)), int(draw.integers(5))
            key = number % 2
            kind = "-D" if draw.integers(3) == 0 else "+U"
            batch.append(right(key, number, kind) if is_right else left(key, number, f"n{draw.integers(3)}", kind))
            everything[is_right, number] = batch[-1]
        for number, name, other, kind in rows.batch(*batch):
            now.pop((number, other), None)
            if kind != "-D":
                now[number, other] = name
    assert now == {(number, other): name for number, name, other, _ in whole.batch(*everything.values())}
