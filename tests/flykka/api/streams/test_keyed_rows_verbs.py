"""Validation of table and row functions by key; errors name the line of the call."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.errors import ProgramError, StreamTypeError
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark


def nothing(rows: Any, state: Any) -> tuple[None, None]:
    return None, None


def test_a_table_function_emits_its_declared_columns_and_event_time_if_present(
    spark: SparkSession,
) -> None:
    stream = bids(spark).key_by("auction").process_table(nothing, state="n long", output="auction long, at timestamp")

    assert stream.columns == ["auction", "at"]
    stream.key_by("auction").window(HOURS)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"state": "n"}, r"process_table\(nothing\): the declared columns, 'n', cannot be read"),
        ({"state": "auction long"}, "both the state and the keys have a column 'auction'"),
        ({"state": "__n long"}, "names that begin with '__' are reserved"),
        ({"state": "n long, N long"}, "two columns are named 'N'"),
        ({"output": ""}, "the declared columns, '', "),
        ({"timer": "n"}, "timer .* and on_timer belong together"),
        ({"timer": "m", "on_timer": nothing}, "the timer 'm' is not a column of the state: n"),
        ({"timer": "n", "on_timer": nothing}, "the timer 'n' is of type bigint, not timestamp"),
        ({"frames": "polars"}, "frames are 'arrow' or 'pandas', not 'polars'"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else "",
)
def test_invalid_arguments_of_a_table_function_are_refused(
    spark: SparkSession, said: dict[str, Any], text: str
) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(StreamTypeError, match=text):
        keyed.process_table(nothing, **{"state": "n long", "output": "n long", **said})


def test_a_key_named_like_another_column_is_refused(spark: SparkSession) -> None:
    keyed = bids(spark).key_by(F.upper("channel").alias("channel"))

    with pytest.raises(
        StreamTypeError, match="the key 'channel' has the name of a column of the rows, but a different"
    ):
        keyed.process_table(nothing, state="n long", output="n long")
    assert bids(spark).key_by(F.col("channel")).process_table(nothing, state="n long", output="n long").columns == ["n"]


def test_a_function_that_cannot_be_pickled_is_refused(spark: SparkSession) -> None:
    lock = threading.Lock()
    keyed = bids(spark).key_by("auction")

    why = "the function cannot be sent to Spark's workers: the variable 'lock', which it reads, is a lock,"
    with pytest.raises(StreamTypeError, match=why):
        keyed.process_table(lambda rows, state: (lock, state), state="n long", output="n long")
    with pytest.raises(StreamTypeError, match=why):
        keyed.reduce(lambda one, other: {"lock": lock, **one})


def test_arguments_that_are_not_functions_are_refused(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(ProgramError, match="process_table after bids takes a function of two tables"):
        keyed.process_table("nothing", state="n long", output="n long")  # type: ignore[arg-type]
    with pytest.raises(
        ProgramError, match="reduce after bids takes a function of two rows, or a ReduceFunction, not 1"
    ):
        keyed.reduce(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["min_by", "max_by"])
def test_retained_rows_are_complete_and_have_no_event_time(spark: SparkSession, verb: str) -> None:
    stream = bids(spark)

    kept = getattr(stream.key_by("auction"), verb)("price")

    assert kept.schema == stream.schema
    with pytest.raises(StreamTypeError, match="gives no event time to window by"):
        kept.key_by("auction").window(HOURS)
    with pytest.raises(StreamTypeError, match=f"{verb}\\(cost\\): .*`cost`"):
        getattr(stream.key_by("auction"), verb)("cost")
    with pytest.raises(ProgramError, match=f"{verb} after bids takes the name of a column, not 7"):
        getattr(stream.key_by("auction"), verb)(7)


def test_columns_without_an_order_cannot_be_compared(spark: SparkSession) -> None:
    stream = bids(spark).with_column("tags", F.create_map(F.lit("a"), F.lit(1)))

    with pytest.raises(
        StreamTypeError, match="'tags' is of the type map<string,int>, which running minima and maxima do not support"
    ):
        stream.key_by("auction").max_by("tags")


def test_deduplication_preserves_the_schema_and_event_time_of_a_stream(spark: SparkSession) -> None:
    stream = bids(spark)

    for kept in (
        stream.drop_duplicates("auction"),
        stream.drop_duplicates(["auction", "bidder"], within="1 day"),
        stream.drop_duplicates(),
    ):
        assert kept.schema == stream.schema
        kept.key_by("auction").window(HOURS)


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (([],), ProgramError, r"drop_duplicates after bids takes names of columns, such as \['id'\], not \[\]"),
        ((["cost"],), StreamTypeError, r"drop_duplicates\(cost\): "),
        (("auction", "1 week"), ProgramError, "unknown unit 'week'"),
        (("auction", 0), ProgramError, "must be longer than 0 ms"),
    ],
    ids=["no column", "unknown column", "unknown unit", "no time"],
)
def test_deduplication_without_valid_columns_is_refused(
    spark: SparkSession, said: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    stream = bids(spark)

    with pytest.raises(error, match=text):
        stream.drop_duplicates(*said)


def test_deduplication_within_a_time_needs_event_time(spark: SparkSession) -> None:
    stream = bids(spark, event_time=None)

    with pytest.raises(StreamTypeError, match=r"drop_duplicates\(auction, within=1h\): bids gives no event time"):
        stream.drop_duplicates("auction", within="1h")
