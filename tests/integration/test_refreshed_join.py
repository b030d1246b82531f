"""Tests a stream joined with a periodically refreshed table: even with a kill every row is emitted once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import FileSink, FileSource, RestartStrategies, StreamExecutionEnvironment
from flykka.messages.attempt.answers import SnapshotWritten
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS = 4, 50


def test_refreshed_join_output_equals_that_of_a_batch(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    orders, items = tmp_path / "orders", tmp_path / "items.parquet"
    orders.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": ids, "item": [each % 7 for each in ids]}), orders / f"{number}.parquet")
    pq.write_table(pa.table({"item": range(5), "name": list("abcde")}), items)
    env = environment().set_parallelism(2).enable_checkpointing("500ms", tolerable_failures=100)
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    # One subtask may read all files.
    kill = kill_at(env, Moment(name="", matches=lambda said: isinstance(said, SnapshotWritten)))
    table = env.spark.read.parquet(str(items))

    read = env.from_source(FileSource.parquet(str(orders)).files_per_batch(1), uid="orders")
    joined = read.join(table, "item", "left", refresh="10min").uid("join")
    joined.sink_to(FileSink.parquet(str(tmp_path / "output"))).uid("output")
    env.execute("refreshed join")

    assert kill.done
    expected = spark.read.parquet(str(orders)).join(spark.read.parquet(str(items)), "item", "left")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), expected)
