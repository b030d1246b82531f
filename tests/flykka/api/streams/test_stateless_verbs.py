"""DataFrame methods on a stream: the columns of their results, and refused calls that Spark allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import RichFunction
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.event_time import EventTime
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark

Verb = Callable[[DataStream], DataStream]


def dearer(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from parts


def again(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from parts


class LatestPrice(RichFunction):
    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows.orderBy(F.desc("at")).dropDuplicates(["auction"])


@pytest.mark.parametrize(
    ("verb", "name", "left"),
    [
        (lambda bids: bids.select("price", F.col("at")), "select(price, at)", "price at"),
        (lambda bids: bids.select_expr("price * 2 AS double"), "select_expr(price * 2 AS double)", "double"),
        (lambda bids: bids.filter("price > 1"), "where(price > 1)", "auction bidder price channel at"),
        (lambda bids: bids.drop("at", F.col("channel")), "drop(at, channel)", "auction bidder price"),
        (
            lambda bids: bids.with_column("cents", F.col("price") * 100),
            "with_column(cents)",
            "auction bidder price channel at cents",
        ),
        (
            lambda bids: bids.with_columns({"price": F.lit(1), "on": F.to_date("at")}),
            "with_columns(price, on)",
            "auction bidder price channel at on",
        ),
        (
            lambda bids: bids.with_column_renamed("at", "time"),
            "with_column_renamed(at, time)",
            "auction bidder price channel time",
        ),
        (lambda bids: bids.map_in_pandas(dearer, "price long"), "map_in_pandas(dearer)", "price"),
        (lambda bids: bids.map_in_arrow(again, "price long"), "map_in_arrow(again)", "price"),
    ],
)
def test_a_method_adds_an_operator_with_a_descriptive_name(
    spark: SparkSession, verb: Verb, name: str, left: str
) -> None:
    program = Program()

    made = verb(bids(spark, program))

    assert made.columns == left.split()
    assert [str(operator) for operator in program.transformations] == ["bids", name]


def test_a_long_name_is_truncated(spark: SparkSession) -> None:
    program = Program()

    bids(spark, program).select(*(F.lit(number).alias(f"number_{number}") for number in range(20)))

    name = program.transformations[-1].name
    assert name.startswith("select(0 AS number_0, 1 AS number_1, ")
    assert name.endswith("...)")
    assert len(name) < 70


def test_a_keyed_stream_has_the_methods_of_a_stream(spark: SparkSession) -> None:
    program = Program()

    bids(spark, program).key_by("auction").with_column("n", F.lit(1)).name("ones")

    (source,) = program.transformations[-1].inputs
    assert source.ship_strategy is ShipStrategy.HASH
    assert program.transformations[-1].name == "ones"


def test_a_stream_shows_its_source_and_its_columns(spark: SparkSession) -> None:
    prices = bids(spark).select("price", "at")

    assert prices.columns == ["price", "at"]
    assert prices.schema.simpleString() == "struct<price:bigint,at:timestamp>"
    assert repr(prices).startswith("DataStream of select(price, at)\n  columns     price bigint, at timestamp")
    assert repr(prices.key_by("price")).startswith("KeyedStream of select(price, at)\n")


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        (lambda bids: bids.drop("price", "prize"), "there is no column 'prize' to drop; the columns are auction, "),
        (lambda bids: bids.drop(F.col("prize")), r"there is no column Column<'prize'> to drop"),
        (lambda bids: bids.with_column_renamed("prize", "price"), "there is no column 'prize' to rename; "),
        (lambda bids: bids.with_column_renamed("price", "at"), "two columns are named 'at'"),
        (lambda bids: bids.with_column("cents", F.col("prize")), "`prize` cannot be resolved"),
        (lambda bids: bids.map_in_pandas(dearer, "price longer"), "LONGER"),
        (lambda bids: bids.map_in_arrow(None, "price long"), "pass a function, not a NoneType"),
        (lambda bids: bids.select(), "at least one column is needed"),
        (lambda bids: bids.select_expr(), "at least one column is needed"),
        (lambda bids: bids.with_columns({}), "at least one column is needed"),
        (lambda bids: bids.drop(), "at least one column is needed"),
    ],
)
def test_invalid_arguments_are_refused_even_if_spark_ignores_them(spark: SparkSession, verb: Verb, what: str) -> None:
    with pytest.raises(StreamTypeError, match=rf"^\w+\(.*\): .*{what}"):
        verb(bids(spark))


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        (lambda bids: bids.select(F.sum("price")), "this aggregates rows"),
        (lambda bids: bids.select("*", F.expr("lag(price) OVER (ORDER BY at)")), "this uses a window function"),
        (lambda bids: bids.with_column("all", F.expr("count(*) OVER ()")), "this uses a window function"),
        (lambda bids: bids.with_columns({"n": F.monotonically_increasing_id()}), "this numbers rows"),
        (lambda bids: bids.transform(lambda rows: rows.dropDuplicates(["auction"])), "this removes duplicates"),
        (lambda bids: bids.key_by("auction").transform(LatestPrice()), "this sorts rows .* and removes duplicates"),
    ],
)
def test_methods_that_depend_on_batch_boundaries_are_refused(spark: SparkSession, verb: Verb, what: str) -> None:
    program = Program()
    stream = bids(spark, program)

    with pytest.raises(StreamTypeError, match=rf"{what}.* within one batch only"):
        verb(stream)

    assert len(program.transformations) == 1


def test_transform_may_be_declared_as_per_batch(spark: SparkSession) -> None:
    stream = bids(spark)

    counted = stream.transform(lambda rows: rows.groupBy("auction").count().orderBy("count"), per_batch=True)
    latest = stream.transform(LatestPrice(), per_batch=True)

    assert counted.columns == ["auction", "count"]
    assert latest.columns == stream.columns


def test_explode_turns_a_row_into_several(spark: SparkSession) -> None:
    words = bids(spark).select(F.explode(F.split("channel", " ")).alias("word")).with_column("length", F.length("word"))

    assert words.columns == ["word", "length"]


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (None, "pass a function, not a NoneType"),
        (RichFunction, r"pass an object, RichFunction\(...\), not its class"),
    ],
)
def test_transform_accepts_functions_of_rows(spark: SparkSession, function: Any, what: str) -> None:
    with pytest.raises(StreamTypeError, match=what):
        bids(spark).transform(function)


@pytest.mark.parametrize(
    ("verb", "event_time"),
    [
        (lambda bids: bids.map_in_pandas(dearer, "price long, at timestamp"), "at"),
        (lambda bids: bids.with_column_renamed("at", "time"), "time"),
        (lambda bids: bids.with_column_renamed("price", "cents"), "at"),
        (lambda bids: bids.with_column("at", F.col("at") + F.expr("INTERVAL 1 HOUR")), "at"),
        (lambda bids: bids.with_column("at", F.date_format("at", "HH:mm")), None),
        (lambda bids: bids.select(F.col("at").alias("time")), None),
        (lambda bids: bids.drop("at"), None),
    ],
)
def test_event_time_is_preserved_while_its_column_is_a_named_timestamp(
    spark: SparkSession, verb: Verb, event_time: str | None
) -> None:
    made = verb(bids(spark))

    assert made.flow.type.event_time == (event_time and EventTime(column=event_time))
    if event_time is None:
        with pytest.raises(StreamTypeError, match="gives no event time"):
            made.key_by(F.lit(1)).window(HOURS)


# Joins


@pytest.fixture(scope="module")
def auctions(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "auction long, title string")


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ("inner", "auction bidder price channel at title"),
        ("LEFT_OUTER", "auction bidder price channel at title"),
        ("semi", "auction bidder price channel at"),
        ("left_anti", "auction bidder price channel at"),
    ],
)
def test_a_stream_is_joined_with_a_static_data_frame(
    spark: SparkSession, auctions: DataFrame, how: str, left: str
) -> None:
    joined = bids(spark).join(auctions, "auction", how)

    assert joined.columns == left.split()


def test_a_join_with_a_refreshed_table_has_the_same_columns(spark: SparkSession, auctions: DataFrame) -> None:
    stream = bids(spark).join(auctions, "auction", "left", refresh="10min")

    assert stream.columns == bids(spark).join(auctions, "auction", "left").columns
    assert stream.flow.type.event_time is not None
    with pytest.raises(DurationError, match="refresh"):
        bids(spark).join(auctions, "auction", refresh="soon")


def test_a_join_may_have_a_condition(spark: SparkSession, auctions: DataFrame) -> None:
    program = Program()
    titles = auctions.withColumnRenamed("auction", "id")

    joined = bids(spark, program).join(titles, F.col("auction") == titles["id"])

    assert joined.columns[-2:] == ["id", "title"]
    assert program.transformations[-1].name.startswith("inner join(")


@pytest.mark.parametrize("how", ["right", "right_outer", "full", "OUTER", "fullouter"])
def test_a_join_that_emits_unmatched_static_rows_is_refused(spark: SparkSession, auctions: DataFrame, how: str) -> None:
    with pytest.raises(StreamTypeError, match=f"a '{how}' join would emit static rows without a match once per"):
        bids(spark).join(auctions, "auction", how)


@pytest.mark.parametrize(
    ("join", "what"),
    [
        (
            lambda bids, auctions: bids.join(auctions, "auction", "loose"),
            "unknown join kind 'loose'; known: inner, cross,",
        ),
        (lambda bids, auctions: bids.join(auctions), "the join needs on=..."),
        (lambda bids, auctions: bids.join(auctions, "title"), "`title`"),
        (lambda bids, auctions: bids.join(auctions, [3]), r"on=\.\.\. takes column names or conditions, not \[3\]"),
        (
            lambda bids, auctions: bids.join(auctions.withColumn("price", F.lit(1)), "auction"),
            "two columns are named 'price'",
        ),
    ],
)
def test_an_invalid_join_is_refused(
    spark: SparkSession, auctions: DataFrame, join: Callable[[DataStream, DataFrame], DataStream], what: str
) -> None:
    with pytest.raises(StreamTypeError, match=what):
        join(bids(spark), auctions)


def test_a_streaming_dataframe_of_spark_is_not_static(spark: SparkSession) -> None:
    rates = spark.readStream.format("rate").load().withColumn("auction", F.col("value"))

    with pytest.raises(StreamTypeError, match="not with one of readStream"):
        bids(spark).join(rates, "auction")


# Union


def test_a_union_adds_inputs_but_no_operator(spark: SparkSession) -> None:
    program = Program()
    first, second = bids(spark, program), bids(spark, program)

    united = first.union(second, first)
    united.select("price")

    assert [str(made) for made in program.transformations] == [
        "bids",
        "bids",
        "select(price)",
    ]
    assert [str(each.source) for each in program.transformations[-1].inputs] == [
        "bids",
        "bids",
        "bids",
    ]


def test_settings_of_a_union_are_refused(spark: SparkSession) -> None:
    program = Program()
    united = bids(spark, program).union(bids(spark, program))

    with pytest.raises(ProgramError, match="the union of bids and bids is not an operator"):
        united.set_parallelism(2)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda bids: bids.select("bidder", "auction"), "column 1 is auction bigint .* and bidder bigint in this one"),
        (lambda bids: bids.drop("at"), "this one has no column at timestamp"),
        (lambda bids: bids.with_column("n", F.lit(1)), "the first stream has no column n int"),
        (
            lambda bids: bids.with_column("price", F.col("price").cast("int")),
            "column 3 is price bigint in the first stream and price int in this one",
        ),
        (lambda bids: bids.key_by("auction"), "not with a KeyedStream"),
    ],
)
def test_a_union_requires_equal_columns_in_equal_order(
    spark: SparkSession, other: Callable[[DataStream], DataStream], what: str
) -> None:
    stream = bids(spark)

    with pytest.raises(StreamTypeError, match=what):
        stream.union(other(stream))


def test_streams_of_two_environments_cannot_be_united(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match="they belong to two environments"):
        bids(spark).union(bids(spark))


def test_a_union_has_event_time_if_all_streams_share_it(spark: SparkSession) -> None:
    program = Program()
    timed, other = bids(spark, program), bids(spark, program, event_time=None)

    assert timed.union(timed).flow.type.event_time == EventTime(column="at")
    assert timed.union(other).flow.type.event_time is None


# Side outputs


def test_a_side_output_splits_a_stream_into_two_operators(spark: SparkSession) -> None:
    program = Program()

    rest, side = bids(spark, program).side_output("price > 100")
    rest.name("cheap").uid("cheap")
    side.name("dear").uid("dear")

    assert [str(made) for made in program.transformations] == ["bids", "cheap", "dear"]


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("prize > 1", "`prize`"),
        ("price", "BOOLEAN"),
        ("rand() > 0.5", r"not deterministic.* with with_column\(...\)"),
    ],
)
def test_a_condition_that_does_not_split_the_rows_is_refused(spark: SparkSession, condition: str, what: str) -> None:
    program = Program()
    stream = bids(spark, program)

    with pytest.raises(StreamTypeError, match=what):
        stream.side_output(condition)

    assert len(program.transformations) == 1
