"""Validation of joins and co-groups by window; errors name the line of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.joins import EqualTo, WindowJoined
from flykka.errors import FlykkaError, ProgramError, StreamTypeError
from flykka.spark_bridge.functions.event_time import OF_WINDOWS
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.operators.join_code import WindowJoinCode
from tests.flykka.programs import HOURS, bids, two_streams

pytestmark = pytest.mark.spark


def equal(spark: SparkSession) -> EqualTo[WindowJoined]:
    left, right = two_streams(spark)
    return left.join(right).where("auction").equal_to("auction")


def merge_rows(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return left


def test_results_have_the_window_bounds_and_the_columns_of_both_sides(spark: SparkSession) -> None:
    made = equal(spark).window(HOURS).select("left.auction", F.col("right.price").alias("paid"))

    assert made.columns == ["window_start", "window_end", "auction", "paid"]
    assert made.flow.type.event_time == OF_WINDOWS
    code = made.flow.operator.code
    assert isinstance(code, WindowJoinCode)
    assert (code.left.rows.needed, code.right.rows.needed) == (("auction", "at"), ("auction", "price", "at"))


def test_a_join_with_a_dataframe_is_not_a_window_join(spark: SparkSession) -> None:
    items = spark.createDataFrame([], "auction long, item string")

    assert bids(spark).join(items, "auction", "left").columns[-1] == "item"


def test_co_groups_have_the_declared_output_columns(spark: SparkSession) -> None:
    left, right = two_streams(spark)
    groups = left.co_group(right).where("auction").equal_to("bidder").window(HOURS)

    made = groups.apply(merge_rows, "window_end timestamp, n long")
    without = groups.apply(merge_rows, "n long")

    assert made.columns == ["window_end", "n"]
    assert (made.flow.type.event_time, without.flow.type.event_time) == (OF_WINDOWS, None)


@pytest.mark.parametrize(
    ("refused", "error", "why"),
    [
        (lambda one, two: one.join(two, "auction"), ProgramError, r"leave out on, how and refresh"),
        (lambda one, two: one.join(two).where(), ProgramError, "needs at least one column"),
        (lambda one, two: one.join(two).where("nothing"), StreamTypeError, "nothing"),
        (lambda one, two: one.co_group(two.key_by("auction")), StreamTypeError, "not a KeyedStream"),
        (
            lambda one, two: one.join(two).where("auction").equal_to("channel").window(HOURS).select("left.*"),
            StreamTypeError,
            "the key auction of the left side is bigint, and channel of the right side is string",
        ),
        (
            lambda one, two: (
                one.co_group(two).where("auction").equal_to("channel").window(HOURS).apply(merge_rows, "n long")
            ),
            StreamTypeError,
            "the key auction of the left side is bigint",
        ),
        (
            lambda one, two: (
                one.join(two).where("auction").equal_to("auction").window(EventTimeSessionWindows.with_gap("5min"))
            ),
            ProgramError,
            "takes tumbling or sliding windows of event time.* not EventTimeSessionWindows",
        ),
        (
            lambda one, two: one.join(two).where("auction").equal_to("auction").window(HOURS).select("price"),
            StreamTypeError,
            "(?i)ambiguous",
        ),
        (
            lambda one, two: one.co_group(two).where("auction").equal_to("auction").window(HOURS).apply(3, "n long"),
            StreamTypeError,
            "pass a function",
        ),
    ],
)
def test_impossible_joins_are_refused(
    spark: SparkSession, refused: Callable[[DataStream, DataStream], Any], error: type[FlykkaError], why: str
) -> None:
    with pytest.raises(error, match=why):
        refused(*two_streams(spark))


def test_a_stream_without_event_time_is_refused(spark: SparkSession) -> None:
    left, right = two_streams(spark, event_time=None)

    with pytest.raises(StreamTypeError, match="gives no event time to join by"):
        left.join(right).where("auction").equal_to("auction")
