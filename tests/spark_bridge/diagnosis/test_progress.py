"""Tests the progress of an attempt's stages, as reported by Spark."""

from __future__ import annotations

from threading import Event

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.messages.wire.ids import JobId
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS
from tests.spark_bridge.harness import Harness, transform, write_rows


@pytest.mark.spark
@pytest.mark.slow
def test_tasks_are_counted_for_a_hanging_stage_but_not_a_waiting_one(
    spark: SparkSession,
    harness: Harness,
) -> None:
    begun, may_go_on = Event(), Event()
    # Spark counts everything that has run under this name, even in earlier tests.
    harness.job_id = JobId("hangs")

    def wait_behind_a_job(rows: DataFrame) -> DataFrame:
        rows.count()
        begun.set()
        assert may_go_on.wait(PATIENCE_SECONDS)
        return rows

    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    vertex = harness.source(transform(wait_behind_a_job), harness.sink())
    attempt = harness.begin(vertex).open()
    assert attempt.engine.progress() == ()
    attempt.start_read(harness.splits(vertex))
    assert begun.wait(PATIENCE_SECONDS)
    # Spark's task counter is updated after the thread that waits for the job continues.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    (work,) = attempt.engine.progress()
    younger_than_a_minute = attempt.engine.progress(60_000)
    may_go_on.set()
    attempt.expect_result()
    last = attempt.engine.last_work().pieces
    attempt.close()

    assert younger_than_a_minute == ()
    assert work.what.startswith("stage 1 of ")
    assert work.jobs >= 1
    (spark_jobs,) = [piece.spark_jobs for piece in last if piece.what == work.what]
    assert len(spark_jobs) >= 1
    assert work.tasks == work.tasks_done >= 1
    assert attempt.engine.progress() == ()
