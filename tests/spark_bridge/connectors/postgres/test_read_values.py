"""Tests that PostgreSQL's texts are converted to equal Spark values or reported as unreadable, without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flykka.spark_bridge.connectors.postgres.read_types import (
    UNREADABLE,
    OnUnreadable,
    ReadColumn,
    ReadValues,
    array_elements,
    may_have_been,
)
from flykka.spark_bridge.connectors.postgres.tables import TableColumn
from flykka.spark_bridge.errors import UnreadableValueError

INT8, NUMERIC, TEXT = 20, 1700, 25


def column(base: str, **given: object) -> ReadColumn:
    return ReadColumn.of(TableColumn(name="odd", type=base, base=base, category="", **given))  # type: ignore[arg-type]


def numeric(precision: int, scale: int) -> ReadColumn:
    return column("numeric", modifier=(precision << 16 | scale & 0x7FF) + 4)


def array(element: str, delimiter: str = ",") -> ReadColumn:
    return column(f"_{element}", element=element, delimiter=delimiter)


def unfit(read: ReadColumn, *texts: str | None) -> list[str | None]:
    """Return the texts that have no value in Spark."""
    _, mask = read.parsed(pa.array(texts, pa.string()))
    assert mask is not None, "the type has not all values"
    return [text for text, is_unfit in zip(texts, mask.to_pylist(), strict=True) if is_unfit]


@pytest.mark.parametrize(
    ("text", "delimiter", "expected"),
    [
        ("{}", ",", []),
        ("{1,2}", ",", ["1", "2"]),
        ('{a,"b, \\"c\\"",NULL,"NULL",""," "}', ",", ["a", 'b, "c"', None, "NULL", "", " "]),
        ("{{1,2},{3,4}}", ",", [["1", "2"], ["3", "4"]]),
        ("[0:1]={a,b}", ",", ["a", "b"]),
        ('{"back\\\\slash","line\nbreak","{}"}', ",", ["back\\slash", "line\nbreak", "{}"]),
        ("{(1,1),(0,0);(2,2),(1,1);NULL}", ";", ["(1,1),(0,0)", "(2,2),(1,1)", None]),
        ('{"{\\"a\\": 1}","\\"s\\""}', ",", ['{"a": 1}', '"s"']),
        ('{"(1,\\"a b\\")"}', ",", ['(1,"a b")']),
    ],
)
def test_an_array_is_parsed_into_elements(text: str, delimiter: str, expected: list[object]) -> None:
    assert array_elements(text, delimiter) == expected


def test_a_numeric_is_readable_if_its_digits_fit() -> None:
    assert unfit(numeric(10, 2), "12.50", "-99999999.99", None) == []
    assert unfit(numeric(10, 2), "NaN", "Infinity", "-Infinity", "100000000.00") == [
        *("NaN", "Infinity", "-Infinity", "100000000.00")
    ]
    assert unfit(numeric(2, 2), "0.12", "-0.12", "1.12") == ["1.12"]
    assert unfit(column("numeric"), "0." + "1" * 18 + "0000", "1" * 20, "0.1234567890123456789", "1" * 21) == [
        *("0.1234567890123456789", "1" * 21)
    ]


def test_a_date_or_time_is_readable_within_sparks_range_of_years() -> None:
    days = ["0001-01-01", "9999-12-31"]

    assert unfit(column("date"), *days, "0044-03-15 BC", "infinity", "-infinity", "10000-01-01") == [
        *("0044-03-15 BC", "infinity", "-infinity", "10000-01-01")
    ]
    assert unfit(column("timestamp"), *(f"{day} 00:00:00.000001" for day in days), f"{days[0]} 00:00:00 BC") == [
        "0001-01-01 00:00:00 BC"
    ]
    assert unfit(column("timestamptz"), *(f"{day} 23:59:59+00" for day in days), "infinity") == ["infinity"]


def test_an_array_is_readable_with_one_dimension_and_readable_elements() -> None:
    assert unfit(array("int4"), "{1,NULL}", "{}", None, "{{1,2},{3,4}}") == ["{{1,2},{3,4}}"]
    assert unfit(array("text"), "{infinity}", "{{a},{b}}") == ["{{a},{b}}"]
    assert unfit(array("date"), "{2024-02-29,NULL}", "{2024-02-29,infinity}") == ["{2024-02-29,infinity}"]
    assert unfit(array("numeric"), "{1.5}", "{NaN}", "{1e-20}") == ["{NaN}", "{1e-20}"]


def read_days(on_unreadable: OnUnreadable, keys: tuple[str, ...] = ("id",), puts_aside: bool = True) -> pa.RecordBatch:
    columns = [
        ReadColumn.of(TableColumn(name="id", type="bigint", base="int8", category="N")),
        ReadColumn.of(TableColumn(name="day", type="date", base="date", category="D")),
        ReadColumn.of(TableColumn(name="amount", type="numeric", base="numeric", category="N")),
    ]
    values = ReadValues(
        table="public.days", columns=columns, keys=keys, on_unreadable=on_unreadable, puts_aside=puts_aside
    )
    texts = {"id": ["1", "2", "3"], "day": ["2024-02-29", "infinity", None], "amount": ["1.5", "NaN", "2"]}
    return values.of(pa.record_batch({**texts, "row_kind": ["+I", "+U", "-D"]}))


def test_the_error_names_table_column_value_key_and_the_option() -> None:
    with pytest.raises(UnreadableValueError) as raised:
        read_days("fail")

    assert str(raised.value) == (
        "the column 'day' of public.days has the value 'infinity' in the row id = 2, but date of Spark has no such"
        ' value: with on_unreadable="null" it is read as null, with on_unreadable="side-output" its row goes to a side'
        " output"
    )
    assert UnreadableValueError.suppress_restarts


def test_an_error_identifies_a_row_without_a_key_by_all_columns() -> None:
    with pytest.raises(UnreadableValueError, match=r"in the row id = 2, day = infinity, amount = NaN,"):
        read_days("fail", keys=())


def test_the_error_of_a_reader_without_side_output_does_not_suggest_one() -> None:
    with pytest.raises(UnreadableValueError, match=r'with on_unreadable="null" it is read as null$'):
        read_days("fail", puts_aside=False)


def test_an_unreadable_value_becomes_null_in_an_unchanged_row() -> None:
    assert read_days("null").to_pylist() == [
        {"id": "1", "day": "2024-02-29", "amount": "1.5", "row_kind": "+I"},
        {"id": "2", "day": None, "amount": None, "row_kind": "+U"},
        {"id": "3", "day": None, "amount": "2", "row_kind": "-D"},
    ]


def test_a_key_is_never_read_as_null() -> None:
    with pytest.raises(UnreadableValueError, match=r"in the row day = infinity, .*a key cannot be read as null"):
        read_days("null", keys=("day",))


def test_an_unreadable_row_is_sent_to_the_side_output_as_text() -> None:
    first, second, third = read_days("side-output").to_pylist()

    assert (first[UNREADABLE], third[UNREADABLE]) == (None, None)
    assert second[UNREADABLE] == {
        "row_kind": "+U",
        "unreadable": ["day", "amount"],
        "texts": [("id", "2"), ("day", "infinity"), ("amount", "NaN")],
    }


@pytest.mark.parametrize(
    ("before", "now", "may"),
    [(INT8, NUMERIC, True), (NUMERIC, INT8, False), (NUMERIC, NUMERIC, True), (TEXT, INT8, False)],
)
def test_texts_of_a_widened_type_are_read_as_the_new_type(before: int, now: int, may: bool) -> None:
    assert may_have_been(column("any", type_oid=now), (before, -1)) is may
