"""Errors per service and minute, the README's job, as the users of each engine write it.

`python -m benchmarks.backlog.engines ENGINE LOGS PLACE [FILES]` runs one engine: it reads the folder LOGS, writes into
PLACE/output, and exits. Every engine has its own defaults; FILES is Structured Streaming's `maxFilesPerTrigger`.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

from benchmarks.backlog.logs import SCHEMA


class EngineName(StrEnum):
    SPARK_BATCH = "spark_batch"
    STRUCTURED_STREAMING = "structured_streaming"
    STRUCTURED_STREAMING_IN_PARTS = "structured_streaming_in_parts"
    FLYKKA = "flykka"


def flykka_job(logs: str, place: Path) -> None:
    """Run the README's job; the marker `_SUCCESS` exists already, so the job ends with the last file."""
    from pyspark.sql import functions as F

    from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy

    with StreamExecutionEnvironment.get_execution_environment("local[*]") as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(str(place / "checkpoints"))
        source = FileSource.json(logs, schema=SCHEMA).monitor_continuously("1s")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("time")
        errors = env.from_source(source, watermarks, "logs", uid="logs").where("status >= 500").key_by("service")
        counts = errors.window(TumblingEventTimeWindows.of("1min")).aggregate(F.count("*").alias("errors"))
        counts.uid("counts").sink_to(FileSink.parquet(str(place / "output"))).uid("output")
        env.execute("errors per service")


def structured_streaming(logs: str, place: Path, files_per_trigger: str | None = None) -> None:
    """Process all existing files (`availableNow`), in one batch unless the number of files per batch is given."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.master("local[*]").getOrCreate()
    reader = spark.readStream.schema(SCHEMA)
    if files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_trigger)
    errors = reader.json(logs).where("status >= 500").withWatermark("time", "1 minute")
    counts = errors.groupBy(F.window("time", "1 minute"), "service").agg(F.count("*").alias("errors"))
    query = (
        counts.select("window.start", "window.end", "service", "errors")
        .toDF("window_start", "window_end", "service", "errors")
        .writeStream.format("parquet")
        .outputMode("append")
        .option("checkpointLocation", str(place / "checkpoints"))
        .trigger(availableNow=True)
        .start(str(place / "output"))
    )
    query.awaitTermination()
    spark.stop()


def spark_batch(logs: str, place: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.master("local[*]").getOrCreate()
    errors = spark.read.schema(SCHEMA).json(logs).where("status >= 500")
    counts = errors.groupBy(F.window("time", "1 minute"), "service").agg(F.count("*").alias("errors"))
    result = counts.select("window.start", "window.end", "service", "errors")
    result.toDF("window_start", "window_end", "service", "errors").write.parquet(str(place / "output"))
    spark.stop()


def main(name: str, logs: str, place: str, *options: str) -> None:
    match EngineName(name):
        case EngineName.SPARK_BATCH:
            spark_batch(logs, Path(place))
        case EngineName.STRUCTURED_STREAMING | EngineName.STRUCTURED_STREAMING_IN_PARTS:
            structured_streaming(logs, Path(place), *options)
        case EngineName.FLYKKA:
            flykka_job(logs, Path(place))


if __name__ == "__main__":
    main(*sys.argv[1:])
