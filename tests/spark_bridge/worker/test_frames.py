"""Tests that a pandas function that returns its input unchanged changes no value or null."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.worker.frames import frame_of, table_from

BIG = 2**60 + 1
"""An integer that no float represents."""

TIME = pa.timestamp("us", "UTC")
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
NUMBERS = pa.struct([("n", pa.int64()), ("ids", pa.list_(pa.int64()))])
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-1, 1]),
    (pa.int32(), [2**31 - 1, 0]),
    (pa.int64(), [BIG, -BIG]),
    (pa.float32(), [0.5, -1.0]),
    (pa.float64(), [0.1, 1e300]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "ü"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.decimal128(38, 3), [Decimal("12345678901234567890123456789012345.678"), Decimal("-0.001")]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (TIME, [FIRST, LAST]),
    (pa.timestamp("us"), [FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None)]),
    (pa.list_(pa.int64()), [[BIG, None], []]),
    (pa.list_(pa.list_(pa.int64())), [[[BIG, None], None], []]),
    (pa.list_(pa.bool_()), [[True, None], [False]]),
    (pa.list_(TIME), [[FIRST, None], [LAST]]),
    (pa.list_(NUMBERS), [[{"n": BIG, "ids": [None, BIG]}, None], []]),
    (NUMBERS, [{"n": BIG, "ids": None}, {"n": None, "ids": [-BIG, None]}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", BIG), ("b", None)], []]),
    (pa.map_(pa.int64(), pa.list_(pa.int64())), [[(BIG, [None, BIG])], []]),
]
CASES = [pytest.param(kind, values, id=str(kind)) for kind, values in VALUES]
WITH_NULLS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "without nulls": lambda values: values,
    "beside nulls": lambda values: [values[0], None, values[1]],
    "null alone": lambda _: [None],
    "no rows": lambda _: [],
}


def column(kind: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"value": pa.array(values, kind)})


@pytest.mark.parametrize("nulls", WITH_NULLS)
@pytest.mark.parametrize(("kind", "values"), CASES)
def test_a_frame_round_trips(kind: pa.DataType, values: list[Any], nulls: str) -> None:
    table = column(kind, WITH_NULLS[nulls](values))

    assert table_from(frame_of(table), table.schema, "output") == table


@pytest.mark.parametrize("nulls", WITH_NULLS)
@pytest.mark.parametrize(("kind", "values"), CASES)
def test_a_frame_may_contain_values_of_another_frame(kind: pa.DataType, values: list[Any], nulls: str) -> None:
    table = column(kind, WITH_NULLS[nulls](values))

    frame = pd.DataFrame({"value": pd.Series(frame_of(table)["value"].tolist(), dtype=object)})

    assert table_from(frame, table.schema, "output") == table


@pytest.mark.parametrize(("kind", "values"), CASES)
def test_a_column_has_one_type_in_every_batch(kind: pa.DataType, values: list[Any]) -> None:
    types = {str(frame_of(column(kind, make(values)))["value"].dtype) for make in WITH_NULLS.values()}

    assert len(types) == 1


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_times_are_in_utc_in_any_session_time_zone(zone: str) -> None:
    twice = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
    table = column(TIME, twice)
    frame = frame_of(table.cast(pa.schema([("value", pa.timestamp("us", zone))])))

    assert frame["value"].tolist() == twice
    assert str(frame["value"].dtype) == "datetime64[us, UTC]"
    assert table_from(frame, table.schema, "output") == table


@pytest.mark.parametrize("values", [[float(BIG), np.nan], [np.nan, -(2.0**53)]])
@pytest.mark.parametrize("dtype", ["float64", "Float64", "double[pyarrow]"])
def test_inexact_floats_for_integers_are_refused(values: list[float], dtype: Any) -> None:
    frame = pd.DataFrame({"value": pd.Series(values).astype(dtype)})

    with pytest.raises(
        FunctionOutputError, match=r"the output .* has the column 'value' .* may have been another number"
    ):
        table_from(frame, pa.schema([("value", pa.int64())]), "output")


def test_integral_floats_are_accepted() -> None:
    frame = pd.DataFrame({"value": [2.0**53 - 1, np.nan, -3.0]})

    table = table_from(frame, pa.schema([("value", pa.int64())]), "output")

    assert table["value"].to_pylist() == [2**53 - 1, None, -3]


def test_unnamed_columns_are_matched_by_position_and_empty_frames_have_no_rows() -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])

    assert table_from(pd.DataFrame([[1, "a"]]), schema, "output").to_pylist() == [{"id": 1, "name": "a"}]
    assert table_from(pd.DataFrame(), schema, "output") == schema.empty_table()
    with pytest.raises(FunctionOutputError, match=r"missing: name; not declared: 1"):
        table_from(pd.DataFrame({"id": [1], 1: ["a"]}), schema, "output")


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.int64(), "many"), (NUMBERS, {"n": "many"}), (pa.list_(pa.int64()), [1, "many"])]
)
def test_a_value_of_another_type_is_refused_with_its_column(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(FunctionOutputError, match=r"the output .* has the column 'value' of type .*many"):
        table_from(pd.DataFrame({"value": [value]}), pa.schema([("value", kind)]), "output")
