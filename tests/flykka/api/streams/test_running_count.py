"""What a program may say of a running count per key, and what becomes of it."""

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


def test_a_count_has_the_keys_and_a_column_of_the_name_that_it_was_given(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction", F.upper("channel").alias("channel"))

    assert keyed.count().columns == ["auction", "channel", "count"]
    assert keyed.count("bids").schema["bids"].dataType.simpleString() == "bigint"


def test_a_count_is_aggregated_before_the_exchange_and_kept_behind_it(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).key_by("auction").count().uid("counts")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    kinds = [(node.uid, node.kind) for node in graph.nodes][1:]
    assert kinds == [
        ("counts-local", OperatorKind.LOCAL_GROUP_AGGREGATE),
        ("counts", OperatorKind.GROUP_AGGREGATE),
    ]
    assert graph.node("counts").state_schema == StateSchema(keys="auction bigint", columns="rows bigint")


@pytest.mark.parametrize("name", ["auction", "Auction"])
def test_a_count_that_is_called_like_a_key_is_refused(spark: SparkSession, name: str) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(StreamTypeError, match=r"a key is called 'auction' too: give the count another name"):
        keyed.count(name)


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_count_is_called_by_a_name_and_by_nothing_else(spark: SparkSession, name: object) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(ProgramError, match="takes the name of its column"):
        keyed.count(name)  # type: ignore[arg-type]


def test_counts_have_no_event_time_to_window_by(spark: SparkSession) -> None:
    counts = bids(spark).key_by("auction").count()

    with pytest.raises(StreamTypeError, match="gives no event time to window by"):
        counts.key_by("auction").window(HOURS)
