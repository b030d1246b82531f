"""Tests the first rows of keys, batch by batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flykka.spark_bridge.worker.first_rows import FIRST_ROWS, FirstOfValues, FirstRows
from flykka.spark_bridge.worker.keys import RowOrder

ROW = pa.schema([("key", pa.string()), ("price", pa.float64()), ("id", pa.int64())])


class Kept:
    """State in the operator's form: one row for each key of the batch."""

    def __init__(self, function: FirstRows) -> None:
        self._function = function
        self._lists: dict[str, Any] = {}

    def batch(self, *rows: tuple[str, float | None, int]) -> list[tuple[int, int]]:
        """Return the ids that a batch emits, with their ranks."""
        keys = list(dict.fromkeys(row[0] for row in rows))
        lists = pa.array([self._lists.get(key) for key in keys], pa.list_(pa.struct(list(ROW))))
        state = pa.table({"key": pa.array(keys, pa.string()), FIRST_ROWS: lists})
        table = pa.Table.from_pylist([dict(zip(ROW.names, row, strict=True)) for row in rows], ROW)
        emitted, after = self._function(table, state)
        self._lists.update(zip(after.column("key").to_pylist(), after.column(FIRST_ROWS).to_pylist(), strict=True))
        return sorted((row["id"], row["n"]) for row in emitted.to_pylist())


def first_rows(limit: int, *, is_descending: bool = True, nulls_first: bool = False) -> Kept:
    order = RowOrder(column="price", is_descending=is_descending, nulls_first=nulls_first)
    return Kept(
        FirstRows(keys=("key",), columns=tuple(ROW.names), orders=(order,), limit=limit, emitted=("id",), number="n")
    )


def test_a_row_is_emitted_with_each_rank_it_takes() -> None:
    first = first_rows(2)

    assert first.batch(("a", 5.0, 1), ("b", 9.0, 2), ("a", 7.0, 3)) == [(1, 2), (2, 1), (3, 1)]
    assert first.batch(("a", 6.0, 4)) == [(4, 2)]
    assert first.batch(("a", 8.0, 5)) == [(3, 2), (5, 1)]
    assert first.batch(("a", 1.0, 6), ("b", 1.0, 7)) == [(7, 2)]


def test_the_earliest_of_equal_rows_are_kept() -> None:
    first = first_rows(1)

    assert first.batch(("a", 5.0, 1), ("a", 5.0, 2)) == [(1, 1)]
    assert first.batch(("a", 5.0, 3)) == []


def test_nulls_and_nan_are_sorted_as_in_spark() -> None:
    rows = [("a", 1.0, 1), ("a", None, 2), ("a", float("nan"), 3)]

    assert first_rows(3).batch(*rows) == [(1, 2), (2, 3), (3, 1)]
    assert first_rows(3, is_descending=False, nulls_first=True).batch(*rows) == [(1, 2), (2, 1), (3, 3)]
    assert first_rows(3, is_descending=False).batch(*rows) == [(1, 1), (2, 3), (3, 2)]


def test_the_first_true_row_of_a_key_is_marked_once() -> None:
    mark = FirstOfValues(keys=("key",), columns=("key", "cheap"), conditions=("cheap",))

    def batch(*rows: tuple[str, bool | None]) -> tuple[list[bool], list[bool]]:
        table = pa.table({"key": [row[0] for row in rows], "cheap": pa.array([row[1] for row in rows], pa.bool_())})
        keys = list(dict.fromkeys(row[0] for row in rows))
        state = pa.table({"key": keys, "cheap": pa.array([seen.get(key) for key in keys], pa.bool_())})
        marked, kept = mark(table, state)
        seen.update(zip(keys, kept.column("cheap").to_pylist(), strict=True))
        return marked.column("cheap").to_pylist(), kept.column("cheap").to_pylist()

    seen: dict[str, bool] = {}

    assert batch(("a", False), ("b", True), ("b", True), ("a", None)) == ([False, True, False, False], [False, True])
    assert batch(("b", True), ("a", True), ("a", True)) == ([False, True, False], [True, True])
