"""Tests keyed state in checkpoint files, read as DataFrames with the program's names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.spark_bridge.errors import SavedStateError
from tests.spark_bridge.saved_states import FUNCTION, of_function, of_windows, saved

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def sorted_rows(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=repr)


def test_the_newest_row_of_each_undeleted_key_is_returned(spark: SparkSession, tmp_path: Path) -> None:
    state = of_function(
        spark,
        tmp_path,
        {"a": {"orders": 1}, "b": {"orders": 2}, "c": {"orders": 3}},
        {"a": {"orders": 4, "last one": "shoes"}, "b": None},
    )

    assert state.table().columns == ["user", "orders", "last one"]
    assert sorted_rows(state.table()) == [("a", 4, "shoes"), ("c", 3, None)]
    assert sorted_rows(state.keys()) == [("a",), ("c",)]
    assert sorted_rows(state.values("last one")) == [("a", "shoes")]


def test_a_timer_is_a_row_with_time_and_domain(spark: SparkSession, tmp_path: Path) -> None:
    timers = {"__event_timers": [1000, 5000], "__processing_timers": [7]}
    state = of_function(spark, tmp_path, {"a": timers, "b": {"orders": 1}, "gone": None})

    assert sorted_rows(state.keys()) == [("a",), ("b",)]
    assert [(row.user, row.time.timestamp(), row.domain) for row in state.timers().sort("time").collect()] == [
        ("a", 0.007, "processing-time"),
        ("a", 1, "event-time"),
        ("a", 5, "event-time"),
    ]


def test_values_are_looked_up_by_key_in_the_newest_rows(spark: SparkSession, tmp_path: Path) -> None:
    state = of_function(spark, tmp_path, {"a": {"orders": 1}, "b": {"orders": 2}, "c": {}}, {"a": {"orders": 4}})

    assert state.lookup("orders", [("a",), ("c",), ("nobody",)]) == {("a",): 4}
    with pytest.raises(SavedStateError, match="'uid' has no state 'order'; it has: orders, last one"):
        state.lookup("order", [("a",)])
    with pytest.raises(SavedStateError, match=r"the keys of 'uid' are \(user string\)"):
        state.lookup("orders", [("a", "b")])
    with pytest.raises(SavedStateError, match=r"the keys of 'uid' are \(user string\): not \(1,\)"):
        state.lookup("orders", [(1,)])


def test_state_of_an_operator_without_rows_is_empty(spark: SparkSession) -> None:
    state = saved(spark, FUNCTION, has_timers=True)

    assert (state.table().columns, state.table().count(), state.timers().count()) == (
        ["user", "orders", "last one"],
        0,
        0,
    )


def test_unfired_windows_are_merged_from_panes(spark: SparkSession, tmp_path: Path) -> None:
    # The window from -1 to 1 has fired in one subtask; in the other subtask, the window from 0 to 2 has fired as
    # well.
    state = of_windows(spark, tmp_path, (-1, [("a", 0, 1), ("a", 0, 2), ("a", 1, 4)]), (0, [("b", 0, 8), ("b", 1, 16)]))

    windows = [(row.user, minute(row.window_start), row["sum(amount)"], row.rows) for row in state.windows().collect()]
    panes = [(row.user, minute(row.pane_start), row["sum(amount)"], row.rows) for row in state.panes().collect()]
    assert sorted(windows) == [("a", 0, 7, 3), ("a", 1, 4, 1), ("b", 1, 16, 1)]
    assert sorted(panes) == [("a", 0, 3, 2), ("a", 1, 4, 1), ("b", 1, 16, 1)]
    assert sorted_rows(state.keys()) == [("a",), ("b",)]
    with pytest.raises(SavedStateError, match=r"'uid' has state by window, not table\(\): windows\(\) returns it"):
        state.table()


def minute(time: datetime) -> int:
    """Return the minutes since the epoch; the session is in UTC."""
    return int(time.replace(tzinfo=UTC).timestamp()) // 60
