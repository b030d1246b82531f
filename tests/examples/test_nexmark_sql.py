"""Tests the Nexmark queries as streaming SQL in one job: each result equals that of the batch on the same events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.nexmark.queries import QUERIES, create_stream_views, create_views, digest, newest, sink, text, written
from examples.nexmark.source import EVENT_TIME, WATERMARK_DELAY, Events, nexmark_source
from flykka import RestartStrategies, StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.control.job import CheckpointCompleted
from tests.integration.test_kill import Moment, kill_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

EVENTS = 100_000
"""Ten seconds of events, in batches that end within windows."""

HALF_WAY = Moment(name="in the second checkpoint", matches=lambda said: isinstance(said, SnapshotWritten), count=150)


@pytest.fixture
def batch_query(spark: SparkSession) -> Iterator[Callable[[str], DataFrame]]:
    events = Events(1)(spark.range(EVENTS).withColumnRenamed("id", "index")).cache()
    create_views(events)
    yield lambda query: spark.sql(text(query))
    events.unpersist()


def write_queries(env: StreamExecutionEnvironment, folder: Path, events_per_second: int | None = None) -> None:
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY).with_timestamp_column(EVENT_TIME)
    env.enable_checkpointing("1s").set_checkpoint_dir(str(folder / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, "0s"))
    source = nexmark_source(EVENTS, events_per_second=events_per_second, rows_per_batch=EVENTS * 35 // 100)
    events = env.from_source(source, watermarks, "events", uid="events")
    create_stream_views(env, events)
    for query in QUERIES:
        env.sql(text(query)).sink_to(sink(query, str(folder / query))).uid(query)


def differing_queries(spark: SparkSession, batch: Callable[[str], DataFrame], folder: Path) -> dict[str, object]:
    """Return the queries whose rows differ from the batch, with some of the surplus rows."""
    differences: dict[str, object] = {}
    for query in QUERIES:
        expected = batch(query)
        rows = newest(query, written(query, str(folder / query), spark, expected.schema))
        if digest(rows) != digest(expected):
            differences[query] = rows.exceptAll(expected).take(3)
    return differences


def test_streams_return_the_same_rows_as_the_batch(
    spark: SparkSession, batch_query: Callable[[str], DataFrame], tmp_path: Path
) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        write_queries(env.set_parallelism(2), tmp_path)
        env.execute()

    assert differing_queries(spark, batch_query, tmp_path) == {}


def test_streams_at_parallelism_4_return_the_same_rows_after_a_kill(
    spark: SparkSession, batch_query: Callable[[str], DataFrame], tmp_path: Path
) -> None:
    with StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=4) as env:
        write_queries(env.set_parallelism(4), tmp_path)
        client = env.execute_async()
        kill = kill_at(env, HALF_WAY)
        client.wait()

    assert kill.done
    assert differing_queries(spark, batch_query, tmp_path) == {}


def test_streams_rescaled_from_a_savepoint_return_the_same_rows(
    spark: SparkSession, batch_query: Callable[[str], DataFrame], tmp_path: Path
) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        # The rate is low enough that the source has not finished when the first checkpoint completes.
        write_queries(env.set_parallelism(2), tmp_path, events_per_second=1_000)
        client = env.execute_async()
        completed = threading.Event()
        client.add_listener(lambda said: completed.set() if isinstance(said, CheckpointCompleted) else None)
        assert completed.wait(timeout=600)
        savepoint = client.stop_with_savepoint(str(tmp_path / "savepoints"))
    assert spark.read.parquet(str(tmp_path / "q0")).count() < batch_query("q0").count()
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.from_savepoint(savepoint)
        write_queries(env.set_parallelism(3), tmp_path)
        env.execute()

    assert differing_queries(spark, batch_query, tmp_path) == {}
