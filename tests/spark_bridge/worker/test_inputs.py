"""Tests rows of two inputs in one batch: each row with its own columns and event time, in arrival order."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.functions.current_key import NO_SLOT
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.worker.inputs import OneInput, RowsRead, TwoInputs

FIRST = OneInput(columns=("id", "at"), event_time=EventTime(column="at"))
SECOND = OneInput(columns=("id",), event_time=None)


def utc_second(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def table_of_inputs(*rows: tuple[int, int]) -> pa.Table:
    """Return rows of inputs, each with its id, which is the time in seconds of rows of the first input."""
    inputs = [number for number, _ in rows]
    return pa.table(
        {
            "__input": pa.array(inputs, pa.int8()),
            "__1_id": pa.array([None if number else value for number, value in rows], pa.int64()),
            "__1_at": pa.array(
                [None if number else utc_second(value) for number, value in rows], pa.timestamp("us", "UTC")
            ),
            "__2_id": pa.array([f"{value}" if number else None for number, value in rows]),
        }
    )


def test_rows_keep_arrival_order() -> None:
    read = TwoInputs(inputs=(FIRST, SECOND)).read(table_of_inputs((0, 1), (1, 2), (1, 3), (0, 4)))

    assert read == RowsRead(
        rows=[{"id": 1, "at": utc_second(1)}, {"id": "2"}, {"id": "3"}, {"id": 4, "at": utc_second(4)}],
        timestamps=[1_000, None, None, 4_000],
        inputs=[0, 1, 1, 0],
    )
    assert read.slots(np.array([5, 6, 6, 5])) == [5, 6, 6, 5]


def test_event_times_are_rounded_down_before_1970_too() -> None:
    micros = [-1001, -1000, -500, -1, 0, 500, None]
    times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "America/New_York"))

    read = OneInput(columns=(), event_time=EventTime(column="at", offset_ms=-1)).timestamps(pa.table({"at": times}))

    assert read == [-3, -2, -2, -2, -1, -1, None]


def test_broadcast_rows_come_first_and_have_no_key() -> None:
    read = TwoInputs(inputs=(FIRST, SECOND), is_broadcast=True).read(table_of_inputs((0, 1), (1, 2), (0, 3), (1, 4)))

    assert read.rows == [{"id": "2"}, {"id": "4"}, {"id": 1, "at": utc_second(1)}, {"id": 3, "at": utc_second(3)}]
    assert read.timestamps == [None, None, 1_000, 3_000]
    assert read.inputs == [1, 1, 0, 0]
    assert read.slots(np.array([7, 0, 8, 0])) == [NO_SLOT, NO_SLOT, 7, 8]


def test_a_batch_may_contain_rows_of_only_one_input() -> None:
    both = TwoInputs(inputs=(FIRST, SECOND))

    assert both.read(table_of_inputs((1, 1), (1, 2))).rows == [{"id": "1"}, {"id": "2"}]
    assert both.read(table_of_inputs((0, 1))).rows == [{"id": 1, "at": utc_second(1)}]
    assert both.read(table_of_inputs()).rows == []


def test_rows_of_inputs_without_event_time_have_no_timestamp() -> None:
    assert TwoInputs(inputs=(SECOND, SECOND)).columns == ("__input", "__1_id", "__2_id")
    read = TwoInputs(inputs=(OneInput(columns=("id",), event_time=None), SECOND)).read(table_of_inputs((0, 1), (1, 2)))

    assert (read.rows, read.timestamps) == ([{"id": 1}, {"id": "2"}], None)
