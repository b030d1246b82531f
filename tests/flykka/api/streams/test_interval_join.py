"""Validation of interval joins; errors name the line of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.joins import IntervalJoined
from flykka.api.streams.keyed_stream import KeyedStream
from flykka.api.streams.side_outputs import OutputTag
from flykka.errors import FlykkaError, ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.join_code import IntervalJoinCode
from tests.flykka.programs import bids, two_streams

pytestmark = pytest.mark.spark

LATE = OutputTag("late")


def interval_joined(spark: SparkSession) -> IntervalJoined:
    left, right = two_streams(spark)
    return left.key_by("auction").interval_join(right.key_by("auction")).between("-10min", "0s")


def code_of(stream: DataStream) -> IntervalJoinCode:
    code = stream.flow.operator.code
    assert isinstance(code, IntervalJoinCode)
    return code


def test_columns_of_both_sides_are_addressed_by_side_name(spark: SparkSession) -> None:
    stream = interval_joined(spark).select(
        "left.auction", F.col("right.price").alias("paid"), F.expr("left.price + 1 AS more")
    )

    assert [(each.name, each.dataType.simpleString()) for each in stream.schema] == [
        ("auction", "bigint"),
        ("paid", "bigint"),
        ("more", "bigint"),
    ]


def test_a_star_selects_all_columns_of_a_side(spark: SparkSession) -> None:
    stream = interval_joined(spark).select("left.*", F.col("right.price").alias("paid"))

    assert stream.columns == ["auction", "bidder", "price", "channel", "at", "paid"]


def test_only_columns_that_are_read_are_retained(spark: SparkSession) -> None:
    stream = (
        interval_joined(spark)
        .on("left.bidder != right.bidder")
        .select("left.channel", F.col("right.price").alias("paid"))
    )

    code = code_of(stream)
    assert code.left.rows.needed == ("auction", "bidder", "channel", "at")
    assert code.right.rows.needed == ("auction", "bidder", "price", "at")


def test_all_columns_of_a_side_are_retained_for_its_late_rows(spark: SparkSession) -> None:
    stream = interval_joined(spark).side_output_right_late_data(LATE).select("left.price")

    late = stream.get_side_output(LATE)
    assert late.columns == list(code_of(stream).right.rows.needed) == ["auction", "bidder", "price", "channel", "at"]
    assert code_of(stream).left.rows.needed == ("auction", "price", "at")


def test_each_side_of_an_interval_join_is_exchanged_by_its_keys(spark: SparkSession) -> None:
    left, right = two_streams(spark)
    made = left.union(left).key_by("auction").interval_join(right.key_by("bidder")).between(0, "1s").select("left.*")

    inputs = made.flow.operator.inputs
    assert [each.ship_strategy for each in inputs] == [ShipStrategy.HASH] * 3
    assert code_of(made).left_gates == 2
    keys = [str(each.key_by.columns[0]) for each in inputs if each.key_by is not None]
    assert keys == ["Column<'auction'>", "Column<'auction'>", "Column<'bidder'>"]


def test_results_of_an_interval_join_have_event_time_if_declared(spark: SparkSession) -> None:
    without = interval_joined(spark).select("left.at")
    stream = interval_joined(spark).with_timestamp_column("met_at").select("left.price")

    assert without.flow.type.event_time is None
    assert stream.columns == ["price", "met_at"]
    assert stream.flow.type.event_time == EventTime(column="met_at")


def test_columns_of_the_unmatched_side_are_nullable(spark: SparkSession) -> None:
    stream = interval_joined(spark).full_outer().select("left.price", F.col("right.price").alias("paid"))

    assert [each.nullable for each in stream.schema] == [True, True]


@pytest.mark.parametrize(
    ("refused", "error", "why"),
    [
        (lambda one, two: one.interval_join(two), StreamTypeError, r"takes another keyed stream.* not a DataStream"),
        (
            lambda one, two: one.interval_join(two.key_by(F.col("auction").cast("int"))).between(0, 1).select("left.*"),
            StreamTypeError,
            r"the key auction of the left side is bigint, and .* of the right side is int: cast one of them",
        ),
        (
            lambda one, two: one.interval_join(two.key_by("auction", "bidder")).between(0, 1).select("left.*"),
            StreamTypeError,
            "the left side has 1 keys and the right side 2",
        ),
        (
            lambda one, two: one.interval_join(two.key_by("auction")).between("1min", "-1min"),
            ProgramError,
            r"between\('1min', '-1min'\): the lower bound is after the upper one",
        ),
        (
            lambda one, two: one.interval_join(two.key_by("auction")).between("soon", 0),
            DurationError,
            "lower bound 'soon'",
        ),
    ],
)
def test_incompatible_streams_are_refused_for_an_interval_join(
    spark: SparkSession, refused: Callable[[KeyedStream, DataStream], Any], error: type[Exception], why: str
) -> None:
    left, right = two_streams(spark)

    with pytest.raises(error, match=why):
        refused(left.key_by("auction"), right)


@pytest.mark.parametrize(
    ("refused", "error", "why"),
    [
        (lambda join: join.select(), ProgramError, "needs at least one column"),
        (lambda join: join.select("price"), StreamTypeError, r"(?i)ambiguous"),
        (lambda join: join.select("left.nothing"), StreamTypeError, "nothing"),
        (lambda join: join.select("left.price", "right.price"), StreamTypeError, "two columns are named 'price'"),
        (lambda join: join.select("left.*", "right.*"), StreamTypeError, "two columns are named 'auction'"),
        (lambda join: join.select(F.sum("left.price")), StreamTypeError, "computed from one row of each side"),
        (lambda join: join.on("left.price").select("left.*"), StreamTypeError, "(?i)boolean"),
        (
            lambda join: join.left_outer().with_timestamp_column("t").select("left.price"),
            ProgramError,
            "results of outer joins have no event time",
        ),
        (lambda join: join.side_output_left_late_data("late"), ProgramError, "takes an OutputTag"),
        (
            lambda join: join.side_output_left_late_data(LATE).side_output_right_late_data(LATE).select("left.*"),
            ProgramError,
            "give each side a tag of its own",
        ),
        (lambda join: join.select("left.*").get_side_output(LATE), ProgramError, "has no side outputs"),
    ],
)
def test_impossible_interval_joins_are_refused(
    spark: SparkSession, refused: Callable[[IntervalJoined], Any], error: type[FlykkaError], why: str
) -> None:
    with pytest.raises(error, match=why):
        refused(interval_joined(spark))


def test_empty_intervals_are_refused(spark: SparkSession) -> None:
    left, right = two_streams(spark)
    join = left.key_by("auction").interval_join(right.key_by("auction")).between("1s", "1s").upper_bound_exclusive()

    with pytest.raises(ProgramError, match="both bounds are equal and one is exclusive"):
        join.select("left.*")


def test_an_interval_join_without_event_time_is_refused(spark: SparkSession) -> None:
    left, right = two_streams(spark, event_time=None)

    with pytest.raises(StreamTypeError, match="gives no event time to join by"):
        left.key_by("auction").interval_join(right.key_by("auction"))


def test_streams_of_two_programs_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match="they belong to two environments"):
        bids(spark).key_by("auction").interval_join(bids(spark).key_by("auction"))
