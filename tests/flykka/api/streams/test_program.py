"""Which operators of a program become a job."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.program import Program
from flykka.errors import ProgramError
from flykka.spark_bridge.connectors.file.sink import FileSink
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark


def test_what_leads_to_no_sink_is_no_part_of_the_job(spark: SparkSession) -> None:
    program = Program()
    rest, dear = bids(spark, program).side_output("price > 1")
    rest.select("price")
    dear.uid("dear").sink_to(FileSink.parquet("/dear")).uid("output")

    part = program.leading_to_sinks()

    assert [made.uid for made in part] == ["source-1", "dear", "output"]


def test_a_program_without_operators_is_refused() -> None:
    with pytest.raises(ProgramError, match="no operators"):
        Program().leading_to_sinks()


def test_a_program_that_writes_nothing_is_refused_with_what_it_might_write(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").uid("prices")

    with pytest.raises(ProgramError, match=r"writes nothing: end a stream with sink_to\(...\), perhaps that of prices"):
        program.leading_to_sinks()


def test_a_refused_program_is_forgotten_with_the_next_source_and_not_before(spark: SparkSession) -> None:
    refused = Program()
    refused.submit()
    stream = bids(spark, refused)

    following = refused.for_source()

    assert (len(refused.transformations), following.transformations) == (1, ())
    with pytest.raises(ProgramError, match="is too late: the job of its input was refused, and another one was st"):
        stream.select("price")


def test_a_program_that_was_not_submitted_gets_another_source(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program)

    assert program.for_source() is program


def test_what_is_left_of_a_refused_program_that_is_mended_stays(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").uid("prices")
    program.submit()

    program.remove_operators(program.transformations[1:])

    assert program.for_source() is program
    assert [made.uid for made in program.transformations] == ["source-1"]
