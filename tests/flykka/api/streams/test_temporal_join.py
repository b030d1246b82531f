"""Validation of temporal joins; errors name the line of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.joins import TemporalJoined
from flykka.api.streams.keyed_stream import KeyedStream
from flykka.api.streams.side_outputs import OutputTag
from flykka.api.streams.stream_type import Changelog
from flykka.errors import FlykkaError, ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.temporal_join import TemporalJoinCode
from tests.flykka.programs import two_streams

pytestmark = pytest.mark.spark

LATE = OutputTag("late")


def temporal_joined(spark: SparkSession) -> TemporalJoined:
    left, right = two_streams(spark)
    return left.key_by("auction").temporal_join(right.key_by("auction"))


def upserts(stream: DataStream, *keys: str) -> DataStream:
    """Return the rows as upserts by these keys, with the row kinds in the column `channel`."""
    changelog = Changelog(keys=keys, row_kind="channel")
    return DataStream(stream.flow.typed(changelog, stream.flow.type.event_time))


def code_of(stream: DataStream) -> TemporalJoinCode:
    code = stream.flow.operator.code
    assert isinstance(code, TemporalJoinCode)
    return code


def test_columns_of_both_sides_are_addressed_by_the_names_of_the_sides(spark: SparkSession) -> None:
    stream = temporal_joined(spark).select(
        "left.auction", F.col("right.price").alias("paid"), F.expr("left.price + 1 AS more")
    )

    assert [(each.name, each.dataType.simpleString()) for each in stream.schema] == [
        ("auction", "bigint"),
        ("paid", "bigint"),
        ("more", "bigint"),
    ]


def test_a_bare_name_refers_to_a_column_that_only_one_side_has(spark: SparkSession) -> None:
    left, right = two_streams(spark)
    renamed = right.select("auction", F.col("price").alias("rate"), "at")

    made = left.key_by("auction").temporal_join(renamed.key_by("auction")).on("rate > 1").select("bidder", "rate")

    assert made.columns == ["bidder", "rate"]


def test_results_have_left_event_time_if_its_column_is_selected(spark: SparkSession) -> None:
    with_time = temporal_joined(spark).select("left.*", F.col("right.price").alias("paid"))
    without = temporal_joined(spark).select("left.price")

    assert with_time.columns == ["auction", "bidder", "price", "channel", "at", "paid"]
    assert with_time.flow.type.event_time == EventTime(column="at")
    assert without.flow.type.event_time is None


def test_only_columns_that_are_read_are_retained(spark: SparkSession) -> None:
    stream = (
        temporal_joined(spark)
        .on("left.bidder != right.bidder")
        .select("left.channel", F.col("right.price").alias("paid"))
    )

    sides = code_of(stream).sides
    assert sides.left.columns == ("bidder", "channel", "at")
    assert sides.right.columns == ("bidder", "price", "at")


def test_the_row_kind_of_versions_is_retained_if_they_can_be_deleted(spark: SparkSession) -> None:
    left, right = two_streams(spark)
    made = left.key_by("auction").temporal_join(upserts(right, "auction").key_by("auction")).select("right.price")

    assert code_of(made).sides.row_kind == "channel"
    assert code_of(made).sides.right.columns == ("price", "channel", "at")


def test_all_left_columns_are_retained_if_late_rows_are_read(spark: SparkSession) -> None:
    stream = temporal_joined(spark).side_output_late_data(LATE).select("left.price")

    late = stream.get_side_output(LATE)
    assert late.columns == list(code_of(stream).sides.left.columns) == ["auction", "bidder", "price", "channel", "at"]
    assert late.flow.type.event_time == EventTime(column="at")


def test_each_side_is_exchanged_by_its_keys(spark: SparkSession) -> None:
    left, right = two_streams(spark)
    made = left.union(left).key_by("auction").temporal_join(right.key_by("bidder")).select("left.price")

    inputs = made.flow.operator.inputs
    assert made.flow.operator.kind is OperatorKind.KEYED_PROCESS
    assert [each.ship_strategy for each in inputs] == [ShipStrategy.HASH] * 3
    assert [each.local_code and each.local_code.fingerprint for each in inputs] == ["input(1)", "input(1)", "input(2)"]


def test_the_join_type_and_retained_columns_are_part_of_the_fingerprint(spark: SparkSession) -> None:
    inner, outer = temporal_joined(spark).select("left.price"), temporal_joined(spark).left_outer().select("left.price")

    assert code_of(inner).fingerprint == (
        "temporal_join(inner, keys: bigint; state: left array<struct<price:bigint,at:timestamp>>,"
        " right array<struct<at:timestamp>>, __next_event_timer bigint)"
    )
    assert code_of(outer).fingerprint.startswith("temporal_join(left, ")


@pytest.mark.parametrize(
    ("refused", "error", "why"),
    [
        (lambda one, two: one.temporal_join(two), StreamTypeError, r"takes another keyed stream.* not a DataStream"),
        (
            lambda one, two: one.temporal_join(two.key_by(F.col("auction").cast("int"))).select("left.*"),
            StreamTypeError,
            r"the key auction of the left side is bigint, and .* of the right side is int: cast one of them",
        ),
        (
            lambda one, two: one.temporal_join(upserts(two, "bidder").key_by("auction")),
            StreamTypeError,
            "bids consists of upserts and deletes by bidder, and its versions have this key: key both streams by it,"
            " not by auction",
        ),
        (
            lambda one, two: upserts(two, "auction").key_by("auction").temporal_join(one),
            StreamTypeError,
            "are upserts and deletes by auction, but the join would keep results of rows that have changed",
        ),
    ],
)
def test_incompatible_streams_are_refused(
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
        (lambda join: join.select(F.sum("left.price")), StreamTypeError, "computed from one row of each side"),
        (lambda join: join.on("left.price").select("left.*"), StreamTypeError, "(?i)boolean"),
        (lambda join: join.side_output_late_data("late"), ProgramError, "takes an OutputTag"),
        (lambda join: join.select("left.*").get_side_output(LATE), ProgramError, "has no side outputs"),
        (lambda join: join.right_outer(), AttributeError, "left_outer.. emits rows without a version"),
    ],
)
def test_impossible_joins_are_refused(
    spark: SparkSession, refused: Callable[[TemporalJoined], Any], error: type[FlykkaError], why: str
) -> None:
    with pytest.raises(error, match=why):
        refused(temporal_joined(spark))


def test_a_stream_without_event_time_is_refused(spark: SparkSession) -> None:
    left, right = two_streams(spark, event_time=None)

    with pytest.raises(StreamTypeError, match="temporal_join of bids with bids: bids gives no event time to join by"):
        left.key_by("auction").temporal_join(right.key_by("auction"))
