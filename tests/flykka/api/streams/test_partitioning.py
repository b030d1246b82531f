"""Partitioning of a stream: which subtask receives which rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.api.streams.stream_type import Changelog
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark

CALLS: dict[ShipStrategy, Callable[[DataStream], DataStream]] = {
    ShipStrategy.FORWARD: DataStream.forward,
    ShipStrategy.REBALANCE: DataStream.rebalance,
    ShipStrategy.RESCALE: DataStream.rescale,
    ShipStrategy.SHUFFLE: DataStream.shuffle,
    ShipStrategy.BROADCAST: DataStream.broadcast,
    ShipStrategy.GLOBAL: DataStream.global_,
}


def into_reader(program: Program, defaults: Defaults | None = None) -> list[ShipStrategy]:
    graph = stream_graph(program.transformations, CodeRegistry(), defaults or Defaults())
    return [edge.ship_strategy for edge in graph.inputs("reader")]


@pytest.mark.parametrize("strategy", CALLS)
def test_the_last_partitioning_takes_precedence(spark: SparkSession, strategy: ShipStrategy) -> None:
    program = Program()

    CALLS[strategy](bids(spark, program).broadcast().shuffle()).where("price > 1").uid("reader")

    assert into_reader(program) == [strategy]


def test_each_stream_of_a_union_retains_its_partitioning(spark: SparkSession) -> None:
    program = Program()
    one, other = bids(spark, program), bids(spark, program)

    one.broadcast().union(other.global_(), other).where("price > 1").uid("reader")

    assert into_reader(program) == [ShipStrategy.BROADCAST, ShipStrategy.GLOBAL, ShipStrategy.FORWARD]


def test_the_last_key_takes_precedence(spark: SparkSession) -> None:
    program = Program()

    bids(spark, program).broadcast().key_by("auction").where("price > 1").uid("reader")

    assert into_reader(program) == [ShipStrategy.HASH]


def test_a_partitioned_stream_is_not_an_operator(spark: SparkSession) -> None:
    stream = bids(spark).rebalance()

    with pytest.raises(ProgramError, match="is partitioned already and has no settings: set them before rebal"):
        stream.uid("bids")


def test_forwarding_to_another_parallelism_is_refused_by_name(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).uid("bids").set_parallelism(2).forward().where("price > 1").uid("reader")

    with pytest.raises(
        ProgramError, match=r"'bids' -> 'reader' connects parallelism 2 and 1; use another partitioning"
    ):
        into_reader(program)


def test_without_automatic_uids_the_error_names_the_first_operator_without_one(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).where("price > 1").uid("reader")

    with pytest.raises(ProgramError, match=r"automatic uids are disabled, and the operator 'bids' \(.*\) has no uid"):
        into_reader(program, Defaults(auto_generated_uids=False))


def test_a_uid_hash_suffices_and_must_be_an_operator_id(spark: SparkSession) -> None:
    program = Program()
    source = bids(spark, program).set_uid_hash("A" * 32)
    source.where("price > 1").uid("reader")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults(auto_generated_uids=False))

    assert graph.nodes[0].uid_hash == "a" * 32
    with pytest.raises(ProgramError, match="32 hexadecimal digits, not 'bids'"):
        source.set_uid_hash("bids")


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_slot_sharing_group_must_have_a_name(spark: SparkSession, name: str) -> None:
    with pytest.raises(ProgramError, match="must be a non-empty text"):
        bids(spark).slot_sharing_group(name)
    with pytest.raises(ProgramError, match="must be a non-empty text"):
        bids(spark).set_co_location_group_key(name)


@pytest.mark.parametrize("keys", [("auction",), ()])
@pytest.mark.parametrize(("parallelism", "strategy"), [(1, ShipStrategy.FORWARD), (4, ShipStrategy.HASH)])
def test_updates_of_a_key_are_sent_to_one_subtask(
    spark: SparkSession, keys: tuple[str, ...], parallelism: int, strategy: ShipStrategy
) -> None:
    program = Program()
    upserts = DataStream(bids(spark, program).flow.typed(Changelog(keys=keys)))

    upserts.where("price > 1").uid("reader").set_parallelism(parallelism)

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())
    (edge,) = graph.inputs("reader")
    assert edge.ship_strategy is strategy
    assert (edge.key_by is not None) == (strategy is ShipStrategy.HASH)
