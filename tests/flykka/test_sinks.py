"""Invalid or unsupported sinks are refused on the line that declares them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import ConsoleSink, FileSink, FileSource, ForeachBatchSink, StreamExecutionEnvironment
from flykka.errors import JobSubmissionError, ProgramError, StreamTypeError
from flykka.spark_bridge.program.sink import Sink
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark

COLUMNS = "auction, bidder, price, channel, at"


@pytest.mark.parametrize(
    ("sink", "text"),
    [
        (
            FileSink.parquet("/out").partition_by("chanel"),
            f"parquet /out: there is no column 'chanel' to partition the output by; the columns are {COLUMNS}",
        ),
        (
            FileSink.json("/out").partition_by("at", "price", "channel", "bidder", "auction"),
            "json /out: the output cannot be partitioned by all columns of the stream, at, price, channel,"
            " bidder, auction: its files would have no columns",
        ),
        (
            FileSink.csv("/out").partition_by("price", "at", "PRICE"),
            "csv /out: the partition columns of the output contain 'price' twice",
        ),
    ],
)
def test_partitions_must_be_columns_of_the_stream(spark: SparkSession, sink: FileSink, text: str) -> None:
    stream = bids(spark)

    with pytest.raises(StreamTypeError) as refused:
        stream.sink_to(sink)

    assert str(refused.value) == text


def test_a_partition_must_be_named_by_a_value(spark: SparkSession) -> None:
    stream = bids(spark).select("auction", F.struct("price", "at").alias("both"))

    with pytest.raises(
        StreamTypeError, match="struct<price:bigint,at:timestamp>, which names of folders do not support"
    ):
        stream.sink_to(FileSink.parquet("/out").partition_by("both"))


def test_a_format_must_support_the_types_of_the_columns(spark: SparkSession) -> None:
    stream = bids(spark).select("auction", F.array("price").alias("both"))

    with pytest.raises(StreamTypeError, match="csv files have no type array<bigint>, which the column 'both' has"):
        stream.sink_to(FileSink.csv("/out"))


def test_a_codec_must_be_supported_by_the_format(spark: SparkSession) -> None:
    with pytest.raises(StreamTypeError, match=r"The codec zippy is not available\. Available codecs are"):
        bids(spark).sink_to(FileSink.json("/out", compression="zippy"))


def test_a_refused_sink_does_not_change_the_program(spark: SparkSession) -> None:
    stream = bids(spark)
    with pytest.raises(StreamTypeError):
        stream.sink_to(FileSink.parquet("/out").partition_by("chanel"))

    sink = stream.sink_to(FileSink.parquet("/out").partition_by("channel"))

    assert str(sink.flow.operator) == "parquet /out"


def test_an_object_that_is_not_a_sink_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match=r"takes a sink such as FileSink\.parquet\(path\), not '/out'"):
        bids(spark).sink_to("/out")  # type: ignore[arg-type]


def test_a_batch_function_runs_in_one_subtask_whatever_the_environment_sets(spark: SparkSession) -> None:
    sink = bids(spark).sink_to(ForeachBatchSink(lambda rows, checkpoint_id: None))

    assert sink.flow.operator.parallelism_limit == 1
    with pytest.raises(ProgramError, match=r"the parallelism of foreach_batch .* must be at most 1, not 2"):
        sink.set_parallelism(2)


def test_partitions_must_be_specified(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match="partition_by takes names of columns, not Column"):
        FileSink.parquet("/out").partition_by(F.col("channel"))  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, -1, True, 2.5])
def test_hints_must_be_positive_integers(limit: int) -> None:
    with pytest.raises(ValueError, match="rows per file must be a whole number from 1"):
        FileSink.parquet("/out").rows_per_file(limit)
    with pytest.raises(ValueError, match="files per checkpoint must be a whole number from 1"):
        FileSink.parquet("/out").files_per_checkpoint(limit)


def test_a_file_sink_needs_a_path() -> None:
    with pytest.raises(ValueError, match="needs the path of a folder"):
        FileSink.json("")


def test_options_cannot_set_the_path() -> None:
    with pytest.raises(ValueError, match="the option 'path' does not apply: this FileSink writes to /out"):
        FileSink.json("/out").option("path", "/elsewhere")


def test_options_are_passed_to_spark_and_the_last_value_wins() -> None:
    sink = FileSink.csv("/out", header=True, sep=";").option("Header", False).options(nullValue="-")

    assert dict(sink.layout.options) == {"sep": ";", "Header": "false", "nullValue": "-"}


@pytest.mark.parametrize(
    ("sink", "name", "waits"),
    [
        (FileSink.csv("/out").partition_by("a"), "csv /out", True),
        (ConsoleSink(), "console", False),
        (ForeachBatchSink(print), "foreach_batch print", True),
    ],
)
def test_a_sink_describes_itself_and_whether_it_publishes_on_checkpoints(sink: Sink, name: str, waits: bool) -> None:
    assert (str(sink), sink.publishes_per_checkpoint) == (name, waits)


@pytest.mark.slow
@pytest.mark.integration
def test_all_sinks_get_the_same_rows_and_invalid_ones_are_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(90).selectExpr("id", "id % 3 AS rest").coalesce(1).write.parquet(str(tmp_path / "in"))
    given: list[int] = []

    def take(rows: DataFrame, checkpoint_id: int) -> None:
        given.extend(row.id for row in rows.collect())

    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
        numbers = env.from_source(FileSource.parquet(str(tmp_path / "in")), name="numbers")
        numbers.sink_to(FileSink.csv(tmp_path / "out", header=True).partition_by("rest"))
        numbers.sink_to(ForeachBatchSink(take))
        numbers.sink_to(ConsoleSink(limit=1)).name("look")
        env.execute("numbers")
        env.from_source(FileSource.parquet(str(tmp_path / "in")), name="numbers").sink_to(
            FileSink.json(next((tmp_path / "in").glob("part-*")))
        )
        with pytest.raises(
            JobSubmissionError, match=r"operator 'json \S+' \(.*test_sinks.py:\d+\): .* is a file: pass the path"
        ):
            env.execute("into a file")

    read = spark.read.csv(str(tmp_path / "out"), header=True, schema="id long, rest int")
    assert sorted((row.id, row.rest) for row in read.collect()) == [(number, number % 3) for number in range(90)]
    assert sorted(given) == list(range(90))
    assert capsys.readouterr().out.startswith("look, batch 1: 90 rows\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rest=0", "rest=1", "rest=2"]
