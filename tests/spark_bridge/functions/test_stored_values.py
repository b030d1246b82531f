"""Tests that values in state have equal forms before and after they are written."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.errors import StateValueError
from flykka.spark_bridge.functions.column_types import ColumnType, column_type
from flykka.spark_bridge.functions.state_descriptors import StoredForm, stored_form
from tests.spark_bridge.functions.state_table import through_arrow
from tests.spark_bridge.functions.typed_values import types, values_of_type


def form(type_: str) -> StoredForm:
    return stored_form(column_type(type_, "seen"), "seen")


@st.composite
def typed(draw: st.DrawFn) -> tuple[ColumnType, Any]:
    type_ = draw(types())
    return type_, draw(values_of_type(type_))


def copy_of_stored(form: StoredForm, stored: Any) -> Any:
    return stored if form.copied is None else form.copied(stored)


def as_text(value: Any) -> str:
    """Return a text that distinguishes 1 from 1.0. Arrow and Python name UTC differently."""
    return repr(value).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


@pytest.mark.slow
@given(typed())
def test_a_value_is_equal_before_and_after_storage(drawn: tuple[ColumnType, Any]) -> None:
    type_, value = drawn
    form = stored_form(type_, "seen")

    stored = form.stored(value)

    assert as_text(copy_of_stored(form, through_arrow(stored, str(type_)))) == as_text(copy_of_stored(form, stored))
    assert copy_of_stored(form, stored) == value


@pytest.mark.slow
@given(typed())
def test_mutations_by_a_reader_are_not_stored(drawn: tuple[ColumnType, Any]) -> None:
    type_, value = drawn
    form = stored_form(type_, "seen")
    stored = form.stored(value)
    before = deepcopy(stored)

    spoil(value)
    spoil(copy_of_stored(form, stored))

    assert stored == before


def spoil(value: Any) -> None:
    match value:
        case list():
            for each in value:
                spoil(each)
            value.clear()
        case dict():
            for each in value.values():
                spoil(each)
            value.clear()


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        ("double", 1, 1.0),
        ("double", np.float32(0.5), 0.5),
        ("bigint", np.int32(7), 7),
        ("float", 0.1, 0.10000000149011612),
        ("float", 1e300, float("inf")),
        ("decimal(5,2)", Decimal("1.5"), Decimal("1.50")),
        ("decimal(5,2)", 3, Decimal("3.00")),
        ("binary", bytearray(b"ab"), b"ab"),
        ("array<bigint>", (1, 2), [1, 2]),
        ("struct<a:bigint,b:string>", OrderedDict(b="x", a=1), {"a": 1, "b": "x"}),
        ("map<string,double>", UserDict(a=1), {"a": 1.0}),
        (
            "timestamp",
            datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            datetime(2024, 1, 1, tzinfo=UTC),
        ),
    ],
)
def test_values_of_related_types_are_converted(type_: str, value: Any, stored: Any) -> None:
    converted = form(type_).stored(value)

    assert repr(converted) == repr(stored)


@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        ("bigint", "1", "an int is needed, not a str"),
        ("bigint", 1.5, "an int is needed, not a float"),
        ("bigint", True, "an int is needed, not a bool"),
        ("bigint", None, "an int is needed, not None"),
        ("tinyint", 128, "it has more than 8 bits"),
        ("int", -(2**31) - 1, "it has more than 32 bits"),
        ("double", "1", "a float is needed, not a str"),
        ("boolean", 1, "a bool is needed, not an int"),
        ("string", 1, "a str is needed, not an int"),
        ("binary", "a", "bytes are needed, not a str"),
        ("date", datetime(2024, 1, 1), "a date is needed, not a datetime"),
        ("timestamp", date(2024, 1, 1), "a datetime is needed, not a date"),
        ("timestamp", datetime(2024, 1, 1), "it has no time zone: give it one, or make the type timestamp_ntz"),
        ("timestamp_ntz", datetime(2024, 1, 1, tzinfo=UTC), "it has a time zone: make the type timestamp"),
        ("decimal(3,1)", 1.5, "a Decimal is needed, not a float"),
        ("decimal(3,1)", Decimal("1.25"), "it has more than 1 digits after the point"),
        ("decimal(3,1)", Decimal(100), "it has more than 3 digits"),
        ("decimal(3,1)", Decimal("NaN"), "it is not a number"),
        ("array<bigint>", "ab", "a list is needed, not a str"),
        ("array<bigint>", [1, "a"], "an int is needed, not a str"),
        ("map<string,int>", 1, "a dict is needed, not an int"),
        ("map<string,int>", {None: 1}, "a str is needed, not None"),
        ("map<array<int>,int>", [([1], 1)], "unhashable type: 'list'"),
        ("struct<a:int,b:int>", (1, 2), "a dict of its fields is needed, not a tuple"),
        ("struct<a:int,b:int>", {"a": 1}, "its fields are a, b, not a"),
    ],
)
def test_a_value_of_another_type_is_refused_with_state_type_and_reason(type_: str, value: Any, why: str) -> None:
    with pytest.raises(StateValueError) as refused:
        form(type_).stored(value)

    assert str(refused.value) == f"state 'seen' of type {type_} cannot hold {value!r}: {why}"


def test_a_long_value_is_truncated_in_the_error() -> None:
    with pytest.raises(StateValueError) as refused:
        form("bigint").stored("x" * 10_000)

    assert len(str(refused.value)) < 400
