"""Validation of running aggregates per key, and the operators that they become."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark


def test_a_count_has_the_keys_and_one_named_column(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction", F.upper("channel").alias("channel"))

    assert keyed.count().columns == ["auction", "channel", "count"]
    assert keyed.count("bids").schema["bids"].dataType.simpleString() == "bigint"


def test_a_count_is_aggregated_before_the_exchange_and_retained_after_it(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).key_by("auction").count().uid("counts")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    kinds = [(node.uid, node.kind) for node in graph.nodes][1:]
    assert kinds == [
        ("counts-local", OperatorKind.LOCAL_GROUP_AGGREGATE),
        ("counts", OperatorKind.GROUP_AGGREGATE),
    ]
    assert graph.node("counts").state_schema == StateSchema(
        keys="auction bigint", columns="rows bigint", merged_by=("sum",)
    )


def test_running_results_are_upserts_by_their_keys(spark: SparkSession) -> None:
    program = Program()
    keyed = bids(spark, program).key_by("auction", F.upper("channel").alias("of"))
    keyed.count().uid("counts")
    keyed.max_by("price").uid("dearest")
    bids(spark, program).key_by("auction").max_by("price").uid("dearest of auction")
    bids(spark, program).key_by("`Auction`", F.col("channel")).max_by("price").uid("dearest of a channel")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    assert graph.node("counts").upsert_keys == ("auction", "of")
    assert graph.node("dearest").upsert_keys == (), "a row does not have the second key"
    assert graph.node("dearest of auction").upsert_keys == ("auction",)
    assert graph.node("dearest of a channel").upsert_keys == ("auction", "channel")


@pytest.mark.parametrize("name", ["auction", "Auction"])
def test_a_count_named_like_a_key_is_refused(spark: SparkSession, name: str) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(StreamTypeError, match=r"two columns of the result are named '[Aa]uction': give"):
        keyed.count(name)


@pytest.mark.parametrize("name", ["", None, 7])
def test_the_name_of_a_count_must_be_a_string(spark: SparkSession, name: object) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(ProgramError, match="takes the name of its column"):
        keyed.count(name)  # type: ignore[arg-type]


def test_counts_have_no_event_time_for_windows(spark: SparkSession) -> None:
    counts = bids(spark).key_by("auction").count()

    with pytest.raises(StreamTypeError, match="gives no event time to window by"):
        counts.key_by("auction").window(HOURS)


def test_aggregates_have_the_keys_and_their_own_names(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction")

    result = keyed.aggregate(F.max("price").alias("highest"), (F.sum("price") / F.count("*")).alias("mean"))

    assert result.columns == ["auction", "highest", "mean"]


@pytest.mark.parametrize("verb", ["sum", "min", "max"])
def test_columns_are_aggregated_under_their_own_names(spark: SparkSession, verb: str) -> None:
    keyed = bids(spark).key_by("auction")

    assert getattr(keyed, verb)("price", "bidder").columns == ["auction", "price", "bidder"]
    with pytest.raises(StreamTypeError, match="two columns of the result are named 'auction'"):
        getattr(keyed, verb)("auction")
    with pytest.raises(ProgramError, match=rf"{verb} after .* takes names of columns, such as {verb}\('amount'\)"):
        getattr(keyed, verb)()


def test_an_aggregate_that_needs_all_rows_is_refused_with_an_alternative(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(StreamTypeError, match=r"count, sum, min, max and avg .*: for others use windows"):
        keyed.aggregate(F.collect_list("price"))


def test_an_empty_list_of_aggregates_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match="needs at least one column"):
        bids(spark).key_by("auction").aggregate()
