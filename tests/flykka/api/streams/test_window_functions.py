"""Validation of windows over all rows, and of functions that receive all rows of a window."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from flykka.actors.machines.job_graph.chaining import chains
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.side_outputs import OutputTag
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.program.rich_function import RichFunction
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark

LATE = OutputTag("late")


def best(rows: DataFrame) -> DataFrame:
    best_first = Window.partitionBy("window_start", "window_end").orderBy(F.desc("price"), "auction")
    return rows.withColumn("place", F.row_number().over(best_first)).where("place <= 3")


class OpenedFunction(RichFunction):
    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows


def test_a_window_function_receives_window_bounds_and_all_columns(spark: SparkSession) -> None:
    stream = bids(spark).window_all(HOURS).apply(best)

    assert stream.columns == [
        *("window_start", "window_end", "auction", "bidder", "price", "channel", "at"),
        "place",
    ]
    assert "window_end -1 ms" in repr(stream)


def test_results_of_a_function_without_the_window_end_have_no_event_time(spark: SparkSession) -> None:
    stream = bids(spark).window_all(HOURS).apply(lambda rows: rows.groupBy("window_start").count())

    assert stream.columns == ["window_start", "count"]
    with pytest.raises(StreamTypeError, match="gives no event time to window by"):
        stream.window_all(HOURS)


def test_a_second_window_replaces_the_bounds_of_the_first(spark: SparkSession) -> None:
    counted = bids(spark).key_by("auction").window(HOURS).aggregate(F.max("price").alias("price"))

    made = counted.window_all(HOURS).apply(best)

    assert made.columns == ["window_start", "window_end", "auction", "price", "place"]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(lambda rows: rows.where("nothing > 1"), "nothing", id="a missing column"),
        pytest.param(lambda rows: None, "returned nothing: is a `return` missing?", id="nothing returned"),
        pytest.param("best", "pass a function, not a str", id="no function"),
        pytest.param(OpenedFunction(), "a RichFunction is opened once for all the batches", id="a rich function"),
    ],
)
def test_an_invalid_function_is_refused_at_once(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame], text: str
) -> None:
    windowed = bids(spark).key_by("auction").window(HOURS)

    with pytest.raises(StreamTypeError) as refused:
        windowed.apply(function)

    assert str(refused.value).startswith("apply(")
    assert text in str(refused.value)


def by_window(rows: DataFrame) -> DataFrame:
    sold = rows.withColumnRenamed("window_start", "w").groupBy("auction", "w").agg(F.max("price").alias("price"))
    return sold.join(sold.groupBy("w").agg(F.max("price").alias("price")), ["w", "price"])


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(best, id="a window function"),
        pytest.param(by_window, id="two aggregates and a join, under another name"),
        pytest.param(lambda rows: rows.dropDuplicates(["auction", "window_end"]), id="duplicates of columns"),
        pytest.param(lambda rows: rows.select("window_end", "auction").distinct(), id="duplicates"),
        pytest.param(lambda rows: rows.orderBy("price").where("price > 1"), id="row-wise operations"),
        pytest.param(
            lambda rows: rows.groupBy("window_end").applyInPandas(lambda group: group[:1], rows.schema), id="groups"
        ),
    ],
)
def test_results_grouped_by_the_window_are_accepted(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame]
) -> None:
    assert isinstance(bids(spark).window_all(HOURS).apply(function), DataStream)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(lambda rows: rows.groupBy("auction").count(), "this aggregates rows", id="an aggregate"),
        pytest.param(
            lambda rows: rows.groupBy(F.to_date("window_start")).count(), "this aggregates rows", id="several windows"
        ),
        pytest.param(lambda rows: rows.select("auction").distinct(), "this removes duplicates", id="duplicates"),
        pytest.param(lambda rows: rows.orderBy("price").limit(3), "this limits rows", id="a limit"),
        pytest.param(
            lambda rows: rows.withColumn("n", F.row_number().over(Window.orderBy("price"))),
            "this uses a window function of all windows that fire together, which depends",
            id="a window function",
        ),
    ],
)
def test_computations_across_several_windows_are_refused(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame], text: str
) -> None:
    with pytest.raises(StreamTypeError) as refused:
        bids(spark).window_all(HOURS).apply(function)

    assert text in str(refused.value)
    assert "window_end" in str(refused.value)


def test_a_function_of_keyed_windows_must_group_by_the_keys_too(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction", "channel", F.col("price") % 2).window(HOURS)

    with pytest.raises(StreamTypeError, match=r"of all keys that a subtask has, .* group or partition by channel too"):
        keyed.apply(lambda rows: rows.groupBy("window_end", "auction").count())
    assert keyed.apply(lambda rows: rows.groupBy("window_end", "auction", "channel").count()).columns[-1] == "count"


def test_windows_over_all_rows_are_preaggregated_and_merged_in_one_subtask(
    spark: SparkSession,
) -> None:
    program = Program()
    source = bids(spark, program).set_parallelism(4)
    counted = source.window_all(HOURS).aggregate(F.count("*").alias("bids")).uid("counts")
    counted.sink_to(FileSink.parquet("/counts")).set_parallelism(2)

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults(parallelism=3))

    assert [[node.uid for node in chain.nodes] for chain in chains(graph)] == [
        ["source-1", "counts-local"],
        ["counts"],
        ["sink-3"],
    ]
    assert [edge.ship_strategy for edge in graph.inputs("counts")] == [ShipStrategy.GLOBAL]
    assert (graph.node("counts-local").parallelism, graph.node("counts").parallelism) == (4, 1)
    assert counted.columns == ["window_start", "window_end", "bids"]


def test_windows_over_all_rows_run_in_only_one_subtask(spark: SparkSession) -> None:
    counted = bids(spark).window_all(HOURS).aggregate(F.count("*")).uid("counts")

    with pytest.raises(ProgramError, match=r"^the parallelism of counts .* must be at most 1, not 2$"):
        counted.set_parallelism(2)
    assert counted.set_parallelism(1) is counted


@pytest.mark.parametrize(
    "late_rows_of",
    [
        pytest.param(lambda rows: rows.window_all(HOURS).side_output_late_data(LATE).apply(best), id="a function"),
        pytest.param(
            lambda rows: rows.window_all(HOURS).side_output_late_data(LATE).aggregate(F.count("*")), id="aggregates"
        ),
    ],
)
def test_late_rows_of_windows_over_all_rows_have_a_side_output(
    spark: SparkSession, late_rows_of: Callable[[DataStream], DataStream]
) -> None:
    rows = bids(spark)

    late = late_rows_of(rows).get_side_output(LATE)

    assert late.columns == rows.columns
