"""Cached streams in later programs of an environment."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import RichFunction, RuntimeExecutionMode
from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import DuplicateUidError, ProgramError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark

OUTPUT = FileSink.parquet("/output")


class Unchanged(RichFunction):
    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows


def test_a_cached_stream_that_no_sink_needs_is_not_computed(spark: SparkSession) -> None:
    program = Program()
    stream = bids(spark, program)
    stream.cache().where("price > 1")
    stream.sink_to(OUTPUT).uid("output")

    assert [made.uid for made in program.leading_to_sinks()] == ["source-1", "output"]


def test_a_later_program_computes_a_cached_stream_with_the_same_operators(spark: SparkSession) -> None:
    program = Program()
    cached = bids(spark, program).where("price > 1").uid("dear").set_parallelism(3).cache()
    following = program.close("first")
    bids(spark, following)
    cached.sink_to(OUTPUT)

    part = following.leading_to_sinks()

    assert [made.uid for made in part] == ["source-1", "dear", "cached-1-2", "sink-2", "cached-1-2-sink"]
    assert [made.parallelism for made in part] == [None, 3, 3, None, 3]
    assert part[1].inputs[0].source is part[0]


def test_a_later_program_that_reuses_an_upstream_uid_is_refused(spark: SparkSession) -> None:
    program = Program()
    cached = bids(spark, program).where("price > 1").uid("dear").cache()
    following = program.close("first")
    bids(spark, following).where("price > 2").uid("dear").union(cached).sink_to(OUTPUT)

    with pytest.raises(DuplicateUidError, match=r"the uid 'dear' .* one of which leads to a cached stream"):
        following.leading_to_sinks()


def test_after_a_refused_program_a_cached_stream_joins_the_next_one(spark: SparkSession) -> None:
    program = Program()
    cached = bids(spark, program).cache()
    program.submit()
    following = program.for_source()

    cached.sink_to(OUTPUT)

    assert [made.kind for made in following.transformations] == [OperatorKind.SINK]


def test_a_cached_stream_may_be_a_broadcast_variable_of_a_later_program(spark: SparkSession) -> None:
    program = Program()
    cached = bids(spark, program).cache()
    following = program.close("first")
    read = bids(spark, following).transform(Unchanged()).uid("read").with_broadcast_set(cached, "all")
    read.sink_to(OUTPUT)

    graph = stream_graph(
        following.leading_to_sinks(), CodeRegistry(), Defaults(runtime_mode=RuntimeExecutionMode.BATCH)
    )

    (variable,) = (edge for edge in graph.inputs("read") if edge.broadcast_variable is not None)
    assert variable.source_uid == "cached-1-2"


def test_upserts_cannot_be_cached(spark: SparkSession) -> None:
    newest = bids(spark).key_by("auction").aggregate(F.count("*").alias("bids"))

    with pytest.raises(ProgramError, match=r"the order of rows.*upserts by auction.*cache an earlier stream"):
        newest.cache()


def test_settings_of_a_cached_stream_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match=r"'cached bids' is read by several jobs.*set them before cache\(\)"):
        bids(spark).cache().uid("mine")
