"""The operators of a program that become a job."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.program import Program
from flykka.errors import ProgramError
from flykka.spark_bridge.connectors.file.sink import FileSink
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark


def test_operators_without_a_sink_are_not_part_of_the_job(spark: SparkSession) -> None:
    program = Program()
    rest, dear = bids(spark, program).side_output("price > 1")
    rest.select("price")
    dear.uid("dear").sink_to(FileSink.parquet("/dear")).uid("output")

    part = program.leading_to_sinks()

    assert [made.uid for made in part] == ["source-1", "dear", "output"]


def test_a_program_without_operators_is_refused() -> None:
    with pytest.raises(ProgramError, match="no operators"):
        Program().leading_to_sinks()


def test_a_program_without_sinks_is_refused_with_a_suggestion(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").uid("prices")

    with pytest.raises(ProgramError, match=r"writes nothing: end a stream with sink_to\(...\), perhaps that of prices"):
        program.leading_to_sinks()


def test_a_refused_program_is_discarded_only_at_the_next_source(spark: SparkSession) -> None:
    refused = Program()
    refused.submit()
    stream = bids(spark, refused)

    following = refused.for_source()

    assert (len(refused.transformations), following.transformations) == (1, ())
    with pytest.raises(ProgramError, match="is too late: the job of its input was refused, and another one has been"):
        stream.select("price")


def test_another_source_may_be_added_before_submission(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program)

    assert program.for_source() is program


def test_remaining_operators_of_a_corrected_program_are_kept(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").uid("prices")
    program.submit()

    program.remove_operators(program.transformations[1:])

    assert program.for_source() is program
    assert [made.uid for made in program.transformations] == ["source-1"]
