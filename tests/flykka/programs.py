"""Programs over bids that exist only as a schema."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.dataflow import Dataflow
from flykka.api.streams.program import Program
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.transformation import Input, Transformation
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.functions.windowing.time_windows import TumblingEventTimeWindows
from flykka.spark_bridge.operators.source import SourceCode

BIDS = "auction long, bidder long, price long, channel string, at timestamp"
HOURS = TumblingEventTimeWindows.of("1h")


def bids(spark: SparkSession, program: Program | None = None, *, event_time: str | None = "at") -> DataStream:
    program = program or Program()
    code = SourceCode(source=FileSource.parquet("/bids", schema=BIDS), watermark_delay_ms=0)
    source = Transformation(kind=OperatorKind.SOURCE, position=program.next_position, name="bids", code=code)
    program.add(source)
    prototype = spark.createDataFrame([], BIDS)
    declared = None if event_time is None else EventTime(column=event_time)
    rows = StreamType(prototype=prototype, event_time=declared)
    return DataStream(Dataflow(program=program, inputs=(Input(source=source),), type=rows))


def two_streams(spark: SparkSession, *, event_time: str | None = "at") -> tuple[DataStream, DataStream]:
    program = Program()
    return bids(spark, program), bids(spark, program, event_time=event_time)


def counting(spark: SparkSession, *, parallelism: int | None = None) -> Program:
    """Return a program that writes bids per auction and hour into a folder."""
    program = Program()
    counted = bids(spark, program).key_by("auction").window(HOURS).aggregate(F.count("*").alias("bids")).uid("counts")
    sink = counted.sink_to(FileSink.parquet("/counts")).uid("output")
    if parallelism is not None:
        counted.set_parallelism(parallelism)
        sink.set_parallelism(parallelism)
    return program
