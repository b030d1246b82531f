"""Tests that other readers find each row by each of its values, because statistics in the log never exclude a file
wrongly.
"""

from __future__ import annotations

import datetime as dt
import json
import operator
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pyarrow import compute as pc
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.session.session import engine_session
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Rows = list[dict[str, Any]]
Find = Callable[[str, str, Any], list[int]]

OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">=": operator.ge}
NAN, INFINITY = float("nan"), float("inf")
(TENTH,) = struct.unpack("f", struct.pack("f", 0.1))
NO_TEXT = "bytes that are no text"


def utc_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


VALUES: dict[str, tuple[str, list[Any]]] = {
    "truth": ("boolean", [True, False, None, False]),
    "tiny": ("tinyint", [-128, 127, 0, None]),
    "whole": ("int", [-1, 0, 1, 2**31 - 1]),
    "large": ("bigint", [-(2**63), 2**63 - 1, 0, None]),
    "single": ("float", [TENTH, -0.0, 2.0**127, None]),
    "double": ("double", [0.1, -0.0, -1e308, 1e-300]),
    "infinite": ("double", [INFINITY, -INFINITY, 0.0, None]),
    "narrow": ("decimal(9,2)", [Decimal("-1.10"), Decimal("1.10"), Decimal("9999999.99"), None]),
    "wide": ("decimal(38,10)", [Decimal(-1).scaleb(-10), Decimal(10**37 + 1).scaleb(-10), Decimal(0), None]),
    "text": ("string", ["", "a", "é🐟", "\x7f"]),
    "long": ("string", ["z" * 33, "é🐟" * 40, "a" * 32 + "\x7f\x7f", "b" * 31 + "\U0010ffff" * 3]),
    "day": ("date", [dt.date(1, 1, 1), dt.date(1850, 1, 1), dt.date(9999, 12, 31), None]),
    "moment": (
        "timestamp",
        [
            utc_time(text)
            for text in ("1850-01-01T01:01:01.000001", "1969-12-31T23:59:59.999500", "2026-01-01T00:00:00.123456")
        ]
        + [utc_time("2026-01-01T00:00:00.999999")],
    ),
    "wall": ("timestamp_ntz", [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 1, 1), None, None]),
    "bytes": ("binary", [b"", b"\xff", b"a", None]),
    "empty": ("string", [None, None, None, None]),
    "a.b": ("int", [1, 2, 3, None]),
}
SCHEMA = ", ".join(["id bigint", *(f"`{name}` {kind}" for name, (kind, _) in VALUES.items())])
ROWS: Rows = [{"id": number, **{name: values[number] for name, (_, values) in VALUES.items()}} for number in range(4)]


def by_delta_rs(table: Path) -> Find:
    rows = DeltaTable(str(table)).to_pyarrow_dataset()

    def find(column: str, sign: str, value: Any) -> list[int]:
        field = pc.field(column)
        condition = field.is_null() if value is None else OPERATORS[sign](field, value)
        return sorted(rows.to_table(columns=["id"], filter=condition)["id"].to_pylist())

    return find


def by_polars(table: Path) -> Find:
    rows = pl.scan_delta(str(table))

    def find(column: str, sign: str, value: Any) -> list[int]:
        condition = pl.col(column).is_null() if value is None else OPERATORS[sign](pl.col(column), value)
        return sorted(rows.filter(condition).select("id").collect()["id"].to_list())

    return find


def by_duckdb(table: Path) -> Find:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("t", DeltaTable(str(table)).to_pyarrow_dataset())

    def find(column: str, sign: str, value: Any) -> list[int]:
        condition = f'"{column}" IS NULL' if value is None else f'"{column}" {sign} ?'
        result = connection.execute(f"SELECT id FROM t WHERE {condition}", [] if value is None else [value]).fetchall()
        return sorted(key for (key,) in result)

    return find


READERS: list[Callable[[Path], Find]] = [by_delta_rs, by_polars, by_duckdb]
"""Each reader opens a table once and returns a function that finds the ids of rows in it."""


def append_checkpoints(spark: SparkSession, table: Path, schema: str, *checkpoints: list[tuple[Any, ...]]) -> Path:
    # The table's times are in microseconds, for which the log has bounds.
    session, attempt = engine_session(spark), Attempt(spark, DeltaSink.append(table))
    for number, rows in enumerate(checkpoints, 1):
        attempt.publish(number, frame(session, schema, *rows).coalesce(1))
    return table


def statistics(table: Path) -> list[dict[str, Any]]:
    log = sorted((table / "_delta_log").glob("*.json"))
    entries = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    return [json.loads(entry["add"]["stats"], parse_float=Decimal) for entry in entries if "add" in entry]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, rows = tmp_path_factory.mktemp("tables"), [tuple(row.values()) for row in ROWS]
    return {
        "together": append_checkpoints(spark, folder / "together", SCHEMA, rows),
        "alone": append_checkpoints(spark, folder / "alone", SCHEMA, *([row] for row in rows)),
    }


@pytest.mark.parametrize("opened_by", READERS)
@pytest.mark.parametrize("place", [pytest.param("together", marks=pytest.mark.long), "alone"])
def test_rows_are_found_by_the_values_of_each_type(
    tables: dict[str, Path], place: str, opened_by: Callable[[Path], Find]
) -> None:
    wrong, find = {}, opened_by(tables[place])
    for column, sign, value in searched_values():
        there = [(row["id"], row[column]) for row in ROWS]
        holds = OPERATORS[sign]
        expected = [key for key, other in there if (value is other if None in (value, other) else holds(other, value))]
        ids = find(column, sign, value)
        if ids != expected:
            wrong[f"{column} {sign} {value!r}"] = (ids, expected)

    assert wrong == {}


def searched_values() -> Iterator[tuple[str, str, Any]]:
    for column, (_, values) in VALUES.items():
        for value in [value for value in values if value is not None]:
            yield from ((column, sign, value) for sign in OPERATORS)
        if None in values:
            yield column, "=", None


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        pytest.param("double", NAN, id="double"),
        pytest.param("float", NAN, id="float", marks=pytest.mark.long),
        pytest.param("string", "x" * 5000, id="long text", marks=pytest.mark.long),
        pytest.param("string", "\U0010ffff" * 40, id="highest text"),
        pytest.param("string", NO_TEXT, id="no text"),
    ],
)
def test_rows_of_a_file_with_an_unbounded_value_are_found(
    spark: SparkSession, tmp_path: Path, kind: str, odd: Any
) -> None:
    usual: Any = "a" if kind == "string" else 1.5
    rows = frame(spark, f"id bigint, odd {kind}, flag boolean", (1, odd, True), (2, usual, False), (3, None, None))
    if odd == NO_TEXT:
        rows = rows.selectExpr("id", "if(id = 1, cast(X'ff' as string), odd) AS odd", "flag")
    attempt = Attempt(spark, DeltaSink.append(tmp_path / "table"))
    attempt.publish(1, rows.coalesce(1))
    attempt.publish(2, frame(spark, f"id bigint, odd {kind}, flag boolean", (4, usual, True)).coalesce(1))

    (first, second) = statistics(tmp_path / "table")
    assert first.keys() == {"numRecords", "nullCount"}
    assert (first["numRecords"], first["nullCount"]["flag"]) == (3, 1)
    assert second["minValues"].keys() == second["maxValues"].keys() == {"id", "odd", "flag"}
    for opened_by in READERS:
        find = opened_by(tmp_path / "table")
        if odd != NO_TEXT:
            assert [find("odd", "=", value) for value in (usual, None)] == [[2, 4], [3]], opened_by
        assert find("id", "=", 1) == [1], opened_by
        assert find("flag", "=", True) == [1, 4], opened_by


def test_rows_without_a_column_of_the_table_are_found_as_null(spark: SparkSession, tmp_path: Path) -> None:
    table = append_checkpoints(spark, tmp_path / "table", "id bigint, more string", [(1, "a")])
    Attempt(spark, DeltaSink.append(table), uid="other").publish(1, frame(spark, "id bigint", (2,)))

    for opened_by in READERS:
        find = opened_by(table)
        assert find("more", "=", None) == [2], opened_by
        assert find("more", "=", "a") == [1], opened_by


def test_bounds_equal_those_of_deltas_own_writer(spark: SparkSession, tables: dict[str, Path], tmp_path: Path) -> None:
    (numbers,) = statistics(tables["together"])

    assert numbers["numRecords"] == 4
    assert numbers["nullCount"] == {"id": 0} | {name: values.count(None) for name, (_, values) in VALUES.items()}
    assert VALUES.keys() - numbers["minValues"].keys() == {"bytes", "empty"}
    ends = {name: (numbers["minValues"][name], high) for name, high in numbers["maxValues"].items()}
    assert ends["wide"] == (Decimal("-0.0000000001"), Decimal(10**37 + 1).scaleb(-10))
    assert ends["infinite"] == ("-Infinity", "Infinity")
    assert ends["long"] == ("a" * 32, "é🐟" * 16 + "\U0010ffff")
    assert ends["day"] == ("0001-01-01", "9999-12-31")
    assert ends["moment"] == ("1850-01-01T01:01:01.000Z", "2026-01-01T00:00:00.999Z")
    assert ends["wall"] == ("1969-12-31T23:59:59.999", "2026-01-01T00:00:00.000")
    assert ends["a.b"] == (1, 3)

    (of_ascii,) = statistics(append_checkpoints(spark, tmp_path / "ascii", "text string", [("b" * 40,)]))
    assert (of_ascii["minValues"], of_ascii["maxValues"]) == ({"text": "b" * 32}, {"text": "b" * 32 + "\x7f"})
