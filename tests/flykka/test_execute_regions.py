"""A job of two pipelines on Spark: if one fails, the other continues with its data."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import FileSink, RestartStrategies, StreamExecutionEnvironment
from flykka.messages.control.job import ExecutionStateChanged, JobStatus, JobStatusChanged
from flykka.messages.wire.message import Message
from tests.flykka.fails_once import FailsOnce
from tests.flykka.test_execute_operators import source_of_folder, write_bids

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints,
]


def test_a_failing_pipeline_restarts_and_the_other_keeps_its_attempts(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    write_bids(tmp_path / "left", first=0, files=3)
    write_bids(tmp_path / "right", first=5_000, files=3)
    heard: list[Message] = []
    left = source_of_folder(env, tmp_path / "left").transform(FailsOnce())
    left.sink_to(FileSink.parquet(str(tmp_path / "left-output")))
    right = source_of_folder(env, tmp_path / "right")
    right.sink_to(FileSink.parquet(str(tmp_path / "right-output")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=1, delay="10ms"))

    client = env.execute_async("two pipelines")
    client.add_listener(heard.append)
    client.wait(timeout=120)

    statuses = [each.status for each in heard if isinstance(each, JobStatusChanged)]
    attempts = {str(each.attempt).rsplit("_", 1)[1]: each for each in heard if isinstance(each, ExecutionStateChanged)}
    again = {
        each.task_name for each in heard if isinstance(each, ExecutionStateChanged) and each.attempt.endswith("_1")
    }
    assert statuses == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert attempts.keys() == {"0", "1"}
    assert all("left" in name for name in again)
    for side in ("left", "right"):
        assertDataFrameEqual(
            spark.read.parquet(str(tmp_path / f"{side}-output")), spark.read.parquet(str(tmp_path / side))
        )
