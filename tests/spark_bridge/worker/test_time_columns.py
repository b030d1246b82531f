"""Tests that time columns are in UTC in any session time zone, and become the same integers as single times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from flykka.spark_bridge.functions.times import micros_of, millis_of, time_of_micros
from flykka.spark_bridge.worker.rows import dicts
from flykka.spark_bridge.worker.time_columns import MICROS, as_held, held_schema, micros, millis

ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Tokyo", "Pacific/Apia", "+05:45"]
TIMES = [
    datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC),
    # 01:30 in New York, in summer time, and again one hour later.
    datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
    datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


def column(zone: str, values: list[Any], shape: pa.DataType = MICROS) -> pa.Array:
    """Return values of a type with UTC times, as Spark sends them in a session in this zone."""
    return pa.array(values, shape).cast(_in(zone, shape))


def _in(zone: str, shape: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(shape):
        return pa.timestamp("us", zone)
    if pa.types.is_list(shape):
        return pa.list_(_in(zone, shape.value_type))
    if pa.types.is_map(shape):
        return pa.map_(_in(zone, shape.key_type), _in(zone, shape.item_type))
    return pa.struct([(each.name, _in(zone, each.type)) for each in shape])


@pytest.mark.parametrize("zone", ZONES)
def test_numbers_do_not_depend_on_the_time_zone(zone: str) -> None:
    times = column(zone, [*TIMES, None])

    assert micros(times).to_pylist() == [*map(micros_of, TIMES), None]
    assert millis(times).to_pylist() == [*map(millis_of, TIMES), None]
    assert millis(times, -1).to_pylist() == [*(millis_of(time) - 1 for time in TIMES), None]


def test_milliseconds_may_be_rounded_up() -> None:
    times = pa.array([-1001, -1000, -500, 0, 1, 1000, None], pa.int64()).cast(MICROS)

    assert millis(times).to_pylist() == [-2, -1, -1, 0, 0, 1, None]
    assert millis(times, rounded_up=True).to_pylist() == [-1, -1, 0, 0, 1, 1, None]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("shape", "values"),
    [
        pytest.param(MICROS, [*TIMES, None], id="times"),
        pytest.param(pa.list_(MICROS), [[TIMES[0], None], None, TIMES], id="lists"),
        pytest.param(pa.struct([("at", MICROS)]), [{"at": TIMES[0]}, {"at": None}, None], id="structs"),
        pytest.param(pa.list_(pa.struct([("at", MICROS)])), [[{"at": each} for each in TIMES], None], id="below"),
        pytest.param(pa.map_(MICROS, MICROS), [[(TIMES[0], TIMES[-1])], None], id="maps"),
    ],
)
def test_rows_have_times_in_utc(zone: str, shape: pa.DataType, values: list[Any]) -> None:
    rows = as_held(pa.table({"value": column(zone, values, shape)}))

    assert rows.schema.field("value").type == shape
    assert dicts(rows) == [{"value": value} for value in values]
    for row in dicts(rows)[:1]:
        first = row["value"]
        while not isinstance(first, datetime):
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        assert first.utcoffset() == time_of_micros(0).utcoffset()


def test_times_without_a_zone_are_unchanged() -> None:
    rows = pa.table({"at": pa.array([0], pa.timestamp("us")), "id": [1]})

    assert as_held(rows) is rows


def test_a_nullable_struct_may_have_non_nullable_fields() -> None:
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    # Spark sends a null struct with nulls in the fields.
    nulls = pa.Array.from_buffers(inner, 1, [pa.py_buffer(b"\0")], children=[pa.nulls(1, pa.int64())])
    rows = pa.table({"s": nulls})

    held = as_held(rows)

    assert held.to_pylist() == [{"s": None}]
    assert held.schema.field("s").type == pa.struct([("a", pa.int64())])
    assert held.cast(held.schema).equals(held)
    with pytest.raises(pa.ArrowInvalid, match="nulls in input cannot be viewed as non-nullable"):
        rows.cast(rows.schema)


def test_all_fields_of_stored_rows_are_nullable_except_map_keys() -> None:
    strict = pa.field("element", pa.int64(), nullable=False)
    schema = held_schema(pa.schema([pa.field("l", pa.list_(strict)), pa.field("m", pa.map_(pa.string(), strict))]))

    assert schema.field("l").type.value_field.nullable
    assert schema.field("m").type.item_field.nullable
    assert not schema.field("m").type.key_field.nullable
