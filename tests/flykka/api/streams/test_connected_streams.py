"""Connected streams: their operators in the graph, and invalid uses, which fail on their own line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flykka.spark_bridge.functions.co_functions import CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor, ValueStateDescriptor
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.process import KeyedProcessCode, ProcessCode
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark

RULES = MapStateDescriptor("rules", "string", "bigint")
OUTPUT = "auction bigint, at timestamp"


class ByKey(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen", "bigint"))

    def process_element1(self, row: Any, ctx: Any) -> None: ...

    def process_element2(self, row: Any, ctx: Any) -> None: ...


class Plain(CoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> None: ...

    def process_element2(self, row: Any, ctx: Any) -> None: ...


class Same(CoMapFunction):
    def map1(self, row: Any) -> Any:
        return row

    def map2(self, row: Any) -> Any:
        return row


class Counting(Same):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen", "bigint"))


class ByRules(BroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> None: ...

    def process_broadcast_element(self, row: Any, ctx: Any) -> None: ...


class ByRulesAndKey(KeyedBroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> None: ...

    def process_broadcast_element(self, row: Any, ctx: Any) -> None: ...


def program_of_two_streams(spark: SparkSession) -> tuple[Program, DataStream, DataStream]:
    program = Program()
    return program, bids(spark, program), bids(spark, program, event_time=None).select("bidder", "price")


def edges(program: Program, uid: str) -> list[tuple[str, ShipStrategy]]:
    graph = stream_graph(program.transformations, CodeRegistry(), Defaults(parallelism=2))
    return [(graph.node(edge.source_uid).name, edge.ship_strategy) for edge in graph.inputs(uid)]


def test_each_input_gets_the_columns_of_both_streams_before_the_exchange(spark: SparkSession) -> None:
    program, first, second = program_of_two_streams(spark)

    made = first.connect(second).key_by("auction", "bidder").process(ByKey(), OUTPUT).uid("both")

    hashed = ShipStrategy.HASH
    assert edges(program, "both") == [
        ("input 1 of process(ByKey)", hashed),
        ("input 2 of process(ByKey)", hashed),
    ]
    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())
    assert [graph.node(uid).kind for uid in ("both-local-1", "both-local-2", "both")] == [
        OperatorKind.LOCAL_INPUT,
        OperatorKind.LOCAL_INPUT,
        OperatorKind.KEYED_PROCESS,
    ]
    assert made.columns == ["auction", "at"]


def test_connected_keyed_streams_use_their_own_keys(spark: SparkSession) -> None:
    program, first, second = program_of_two_streams(spark)

    first.key_by("auction").connect(second.key_by(F.col("bidder") % 7)).process(ByKey(), OUTPUT).uid("both")

    code = program.transformations[-1].code
    assert isinstance(code, KeyedProcessCode)
    assert (code.keys, code.state_schema.keys, code.state_schema.columns) == (
        ("__key_0",),
        "auction bigint",
        "seen bigint",
    )


def test_connected_streams_without_keys_are_forwarded(spark: SparkSession) -> None:
    program, first, second = program_of_two_streams(spark)

    first.connect(second.rebalance()).process(Plain(), OUTPUT).uid("both")

    assert [strategy for _, strategy in edges(program, "both")] == [ShipStrategy.FORWARD, ShipStrategy.REBALANCE]


def test_a_map_of_keyed_streams_may_have_keyed_state(spark: SparkSession) -> None:
    _, first, second = program_of_two_streams(spark)
    rows = first.select("bidder", "price")

    assert rows.connect(second).key_by("bidder", "bidder").map(Counting(), "bidder bigint, price bigint").columns
    with pytest.raises(StateDescriptorError, match=r"the stream has no keys, so .* cannot be keyed state"):
        rows.connect(second).map(Counting(), "bidder bigint, price bigint")


def test_only_the_broadcast_stream_is_sent_to_all_subtasks(spark: SparkSession) -> None:
    program, first, second = program_of_two_streams(spark)

    first.connect(second.broadcast(RULES)).process(ByRules(), OUTPUT).uid("plain")
    first.key_by("auction").connect(second.broadcast(RULES)).process(ByRulesAndKey(), OUTPUT).uid("keyed")

    assert [strategy for _, strategy in edges(program, "plain")] == [ShipStrategy.FORWARD, ShipStrategy.BROADCAST]
    assert [strategy for _, strategy in edges(program, "keyed")] == [ShipStrategy.HASH, ShipStrategy.BROADCAST]
    for made in program.transformations[-2:]:
        assert isinstance(made.code, ProcessCode)
        assert [(state.name, state.mode) for state in made.code.operator_state] == [("rules", "BROADCAST")]


def test_each_stream_of_a_union_is_an_input(spark: SparkSession) -> None:
    program, first, second = program_of_two_streams(spark)

    first.union(bids(spark, program)).connect(second).key_by("auction", "bidder").process(ByKey(), OUTPUT).uid("both")

    assert [name for name, _ in edges(program, "both")] == [f"input {n} of process(ByKey)" for n in (1, 1, 2)]


@pytest.mark.parametrize(
    ("output", "column"), [("at timestamp", "at"), ("since timestamp, n int", "since"), ("n int", None)]
)
def test_the_event_time_comes_from_the_first_input_whose_column_is_emitted(
    spark: SparkSession, output: str, column: str | None
) -> None:
    program = Program()
    second = bids(spark, program).with_column_renamed("at", "since")

    stream = bids(spark, program).connect(second).process(Plain(), output)

    event_time = stream.flow.type.event_time
    assert (event_time and event_time.column) == column


REFUSED: dict[str, tuple[Callable[[DataStream, DataStream], object], type[Exception], str]] = {
    "no stream": (lambda one, _: one.connect(3), ProgramError, "takes a stream, .* not 3$"),  # type: ignore[call-overload]
    "keys of other types": (
        lambda one, other: one.connect(other).key_by("channel", "bidder"),
        StreamTypeError,
        r"the key 'channel' of bids is of type string, and 'bidder' of select\(bidder, price\) of type bigint",
    ),
    "other number of keys": (
        lambda one, other: one.connect(other).key_by(["auction", "bidder"], "bidder"),
        ProgramError,
        "keyed by 2 and by 1 columns",
    ),
    "no such column": (
        lambda one, other: one.connect(other).key_by("auction", "nobody"),
        StreamTypeError,
        r"key_by after select\(bidder, price\): .*nobody",
    ),
    "no keys": (lambda one, other: one.connect(other).key_by([], []), ProgramError, "needs at least one column"),
    "keyed twice": (
        lambda one, other: one.key_by("auction").connect(other).key_by("auction", "bidder"),
        ProgramError,
        "bids is keyed already",
    ),
    "one keyed alone": (
        lambda one, other: one.key_by("auction").connect(other).process(ByKey(), OUTPUT),
        ProgramError,
        "keyed by 1 and by 0 columns",
    ),
    "a function of keys without keys": (
        lambda one, other: one.connect(other).process(ByKey(), OUTPUT),
        ProgramError,
        r"takes a CoProcessFunction, or after key_by\(keys1, keys2\) a KeyedCoProcessFunction, not",
    ),
    "a function without keys of keyed streams": (
        lambda one, other: one.connect(other).key_by("auction", "bidder").process(Plain(), OUTPUT),
        ProgramError,
        "takes a KeyedCoProcessFunction, since both are keyed, not",
    ),
    "a class for a function": (
        lambda one, other: one.connect(other).process(Plain, OUTPUT),  # type: ignore[arg-type]
        ProgramError,
        "not its class Plain$",
    ),
    "a plain function for a map": (
        lambda one, other: one.connect(other).map(len, OUTPUT),  # type: ignore[arg-type]
        ProgramError,
        "takes a CoMapFunction, not",
    ),
    "a flat_map of a map": (
        lambda one, other: one.connect(other).flat_map(Same(), OUTPUT),  # type: ignore[arg-type]
        ProgramError,
        "takes a CoFlatMapFunction, not",
    ),
    "an output that is none": (
        lambda one, other: one.connect(other).process(Plain(), "auction"),
        StreamTypeError,
        r"^process\(Plain\): ",
    ),
    "a broadcast without a descriptor of a map": (
        lambda one, other: one.connect(other.broadcast(ValueStateDescriptor("v", "int"))),  # type: ignore[call-overload]
        ProgramError,
        "takes the descriptors of broadcast state, such as MapStateDescriptor",
    ),
    "two broadcast states of one name": (
        lambda _, other: other.broadcast(RULES, MapStateDescriptor("rules", "int", "int")),
        ProgramError,
        "has two states of one name",
    ),
    "a function with keys of a broadcast without": (
        lambda one, other: one.connect(other.broadcast(RULES)).process(ByRulesAndKey(), OUTPUT),
        ProgramError,
        "takes a BroadcastProcessFunction, since bids has no keys, not",
    ),
    "a function of two streams for a broadcast": (
        lambda one, other: one.key_by("auction").connect(other.broadcast(RULES)).process(ByKey(), OUTPUT),  # type: ignore[arg-type]
        ProgramError,
        "takes a KeyedBroadcastProcessFunction, since bids is keyed, not",
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_invalid_uses_of_connected_streams_are_refused_on_their_line(spark: SparkSession, wrong: str) -> None:
    _, first, second = program_of_two_streams(spark)
    use, error, said = REFUSED[wrong]

    with pytest.raises(error, match=said):
        use(first, second)


def test_streams_of_two_programs_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match=re.escape("connect of bids with bids: they belong to two environments")):
        bids(spark).connect(bids(spark))


def test_an_output_type_must_be_declared(spark: SparkSession) -> None:
    _, first, second = program_of_two_streams(spark)

    with pytest.raises(TypeError, match="output"):
        first.connect(second).process(Plain())  # type: ignore[call-arg]
