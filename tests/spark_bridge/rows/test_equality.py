"""Tests that keys are equal exactly if Spark's GROUP BY treats them as equal: for Arrow in workers, Spark's hash, and
map state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flykka import FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.rows.type_support import has_collation
from flykka.spark_bridge.worker.keys import key_numbers, numbers_of_rows, same_values, sorted_by_key

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ZEROS = (0.0, -0.0)
OTHER_NAN = float(np.uint64(0xFFF8_0000_0000_0001).view(np.float64))
"""A NaN whose bits differ from Python's."""

NUMBERS = [None, *ZEROS, math.nan, OTHER_NAN, 1.5, -1.5, math.inf, -math.inf]
VALUES: dict[str, list[Any]] = {
    "double": NUMBERS,
    "float": NUMBERS,
    "struct<x: double, t: string>": [None, *({"x": x, "t": t} for x in NUMBERS for t in ("a", None))],
    "struct<s: struct<x: float>>": [None, {"s": None}, *({"s": {"x": x}} for x in NUMBERS)],
    "array<double>": [None, [], *([x] for x in NUMBERS), *([1.0, x] for x in NUMBERS)],
    "array<struct<x: array<double>>>": [
        None,
        [None],
        *([{"x": list(two)}] for two in zip(NUMBERS, reversed(NUMBERS), strict=True)),
    ],
    "string": [None, "", "a", "A", "a ", "ä", "a\u0308"],
    "binary": [None, b"", b"\0", b"\0\0", b"a"],
    "decimal(10,2)": [None, Decimal("0.00"), Decimal("-1.50"), Decimal("1.50")],
    "timestamp": [None, *(datetime(1969, 12, 31, 23, 59, 59, micros, UTC) for micros in (0, 1, 999_999))],
    "array<string>": [None, [], [None], ["a"], ["a", None], ["A"]],
}


LONG = (
    "float",
    "array<double>",
    "array<string>",
    "binary",
    "decimal(10,2)",
    "timestamp",
)
"""Types that short runs omit, because they are compared like other types or by their bits."""


@pytest.fixture(
    scope="module", params=[pytest.param(each, marks=pytest.mark.long if each in LONG else ()) for each in VALUES]
)
def keyed(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[DataFrame]:
    """Yields each pair of values twice, with the group that GROUP BY assigns."""
    schema = f"place long, key {request.param}"
    rows = spark.createDataFrame([(place, value) for place, value in enumerate(VALUES[request.param] * 2)], schema)
    groups = rows.groupBy("key").agg(F.min("place").alias("first"), F.collect_list("place").alias("place"))
    of_place = groups.select("first", F.explode("place").alias("place"))
    pairs_of_rows = rows.join(of_place, "place").orderBy("place").cache()
    yield pairs_of_rows
    pairs_of_rows.unpersist()


def pairs(values: Any) -> Any:
    return np.equal.outer(values, values)


def test_workers_find_the_same_groups_as_spark(keyed: DataFrame) -> None:
    table = keyed.toArrow()
    keys, first = table.select(["key"]), table["first"].to_numpy()
    count = len(first)
    left, right = (places.ravel() for places in np.indices((count, count)))

    same = same_values(keys["key"].take(left), keys["key"].take(right)).reshape(count, count)
    _, is_first = sorted_by_key(keys.rename_columns(["__key_0"]), np.zeros(count, np.int64), np.arange(count))
    known = np.unique(first)

    assert (same == pairs(first)).all()
    assert (pairs(numbers_of_rows(keys)) == pairs(first)).all()
    assert is_first.sum() == len(known)
    assert (known[key_numbers(keys.take(known), keys)] == first).all()


def test_rows_of_a_key_share_its_key_group_and_its_position(keyed: DataFrame) -> None:
    groups = KeyGroups(keys=("key",), max_parallelism=128)
    position = F.count_distinct(groups.position())

    assert keyed.groupBy("first").agg(position.alias("n")).where("n > 1").count() == 0


def test_normalised_keys_have_the_same_bits(keyed: DataFrame) -> None:
    key = normalised_column(F.col("key"), keyed.schema["key"].dataType)
    texts = (
        keyed.select("first", key.cast("string").alias("text"))
        .groupBy("first")
        .agg(F.count_distinct("text").alias("n"))
    )

    assert texts.where("n > 1").count() == 0
    assert keyed.select(key.alias("key")).schema["key"].dataType == keyed.schema["key"].dataType


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("a string", False),
        ("`x collate y` string", False),
        ("a string collate UTF8_LCASE", True),
        ("a struct<b: array<string collate UNICODE_CI>>", True),
        ("a map<string collate UTF8_LCASE, int>", True),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_collation_is_detected_at_any_nesting_depth(columns: str, *, expected: bool) -> None:
    assert has_collation(StructType.fromDDL(columns)) is expected


PEOPLE = "id long, name string collate UTF8_LCASE, tags map<string, int>, at timestamp"
NAME = "'name' is of the type string collate UTF8_LCASE, which keys do not support: give a column without a collation"


@pytest.fixture(scope="module")
def people(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A stream with columns that cannot be keys."""
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.json").write_text('{"id": 1, "name": "Ann"}\n')
    with StreamExecutionEnvironment.get_execution_environment() as env:
        source = FileSource.json(str(folder), schema=PEOPLE)
        timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
        stream = env.from_source(source, timed, uid="people")
        env.create_temporary_view("people", stream)
        env.create_temporary_view("newest", stream, primary_key="id")
        yield env, stream


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        (lambda rows: rows.key_by("name"), NAME),
        (lambda rows: rows.key_by("id", F.array("name").alias("names")), "array<string collate UTF8_LCASE>"),
        (lambda rows: rows.drop_duplicates(["name"]), NAME),
        (
            lambda rows: rows.key_by("id").max_by("name"),
            "'name' is of the type string collate UTF8_LCASE, which running",
        ),
        (lambda rows: rows.key_by("id").aggregate(F.max("name").alias("m")), "not for texts with a collation"),
        (lambda rows: rows.connect(rows).key_by("name", "name"), NAME),
        (lambda rows: rows.key_by("tags"), 'cannot contain elements of the "MAP" type'),
        (lambda rows: rows.drop_duplicates(["tags"]), '"MAP"'),
    ],
    ids=["key", "part of a key", "duplicates", "max_by", "max", "connected", "map", "duplicates of maps"],
)
def test_an_incomparable_key_is_refused_on_its_line(people: Any, verb: Any, text: str) -> None:
    with pytest.raises(StreamTypeError, match=text.replace('"', '\\"')):
        verb(people[1])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name, count(*) AS n FROM people GROUP BY name",
        "SELECT DISTINCT name FROM people",
        "SELECT max(name) AS m FROM newest",
        "SELECT count(DISTINCT name) AS n FROM newest",
        "SELECT count(DISTINCT name) AS n FROM people",
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY name) AS n FROM people) WHERE n <= 2",
        "SELECT a.id FROM newest a JOIN newest b ON a.name = b.name",
    ],
)
def test_sql_that_compares_texts_with_a_collation_is_refused(people: Any, query: str) -> None:
    with pytest.raises(ProgramError, match="collat"):
        people[0].sql(query)
