"""Tests that a job with resource requirements runs in slots of that size, and keeps its state within their memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.errors import InsufficientResourcesError, ProgramError
from flykka.messages.control.slots import AllocateSlot
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.runtime.trace.file.reader import TraceReader

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def test_a_job_runs_in_slots_of_the_requested_size(spark: SparkSession, few_files: Path, tmp_path: Path) -> None:
    trace, output = tmp_path / "run.trace", tmp_path / "output"
    with StreamExecutionEnvironment.get_execution_environment(
        slots_per_task_manager=2, task_manager_cpu=2, task_manager_memory="1gb", managed_memory="2mb", record=str(trace)
    ) as env:
        assert env.task_manager_budget == "2 cores, 1024 MiB of memory (2 managed, 102 network, 920 other)"
        env.set_parallelism("auto").set_checkpoint_dir(str(tmp_path / "checkpoints"))
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
        sold = env.from_source(FileSource.parquet(str(few_files)).files_per_batch(1), watermarks, "sales")
        windows = sold.key_by("shop").window(TumblingEventTimeWindows.of("1h"))
        sums = windows.aggregate(F.sum("amount").alias("amount")).set_resources(cpu=0.5, memory="200mb")
        sums.sink_to(FileSink.parquet(str(output)))
        graph = env.get_job_graph()
        env.execute()

    assert {vertex.parallelism for vertex in graph.vertices} == {2}
    read = spark.read.parquet(str(output)).groupBy("shop").agg(F.sum("amount").alias("amount"))
    assertDataFrameEqual(read, spark.read.parquet(str(few_files)).groupBy("shop").agg(F.sum("amount").alias("amount")))
    messages = [getattr(turn.message, "message", turn.message) for turn in TraceReader.open(trace)]
    sent = [each for each in messages if isinstance(each, AllocateSlot)]
    assert [each.cut for each in sent] == [ResourceSpec(cpu_millis=500, heap_mib=200, managed_mib=1)] * 2


def test_a_job_with_an_oversized_operator_is_refused_at_execution(
    spark: SparkSession, few_files: Path, tmp_path: Path
) -> None:
    with StreamExecutionEnvironment.get_execution_environment(slots_per_task_manager=1, task_manager_cpu=2) as env:
        sold = env.from_source(FileSource.parquet(str(few_files)), None, "sales")
        with pytest.raises(ProgramError, match="the resources of sales are not set"):
            sold.set_resources()
        sold.set_resources(cpu=3).sink_to(FileSink.parquet(str(tmp_path / "output"))).name("out")

        with pytest.raises(InsufficientResourcesError, match="'sales', 'out' run as one task that needs 3 cores"):
            env.execute()
