"""A job that is rescaled while it runs, from the environment to the output folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka import (
    FileSink,
    FileSource,
    JobClient,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.errors import RescaleError
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.control.rescaling import JobParallelismChanged
from flykka.messages.wire.message import Message

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints("1s"),
]

WAIT_S = 120
KEYS, ROWS = 5, 40


class JobEvents:
    def __init__(self, client: JobClient) -> None:
        self._messages: list[Message] = []
        self._news = threading.Condition()
        client.add_listener(self._hear)

    def _hear(self, message: Message) -> None:
        with self._news:
            self._messages.append(message)
            self._news.notify_all()

    def wait_for_checkpoint_at(self, parallelism: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self._has_checkpoint_at(parallelism), WAIT_S), self._messages[-5:]

    def _has_checkpoint_at(self, parallelism: int) -> bool:
        now = 1
        for message in self._messages:
            if isinstance(message, JobParallelismChanged):
                now = max(vertex.parallelism for vertex in message.vertices)
            elif isinstance(message, CheckpointCompleted) and now == parallelism:
                return True
        return False


def write_keys(folder: Path, number: int) -> None:
    """Write a file of rows, with each key several times a minute."""
    rows = [
        {"key": f"key-{row % KEYS}", "at": f"2024-01-01 00:{number:02}:{row % 60:02}", "n": number * ROWS + row}
        for row in range(ROWS)
    ]
    path = folder / f"part-{number}.json"
    path.with_suffix(".tmp").write_text("\n".join(json.dumps(row) for row in rows))
    path.with_suffix(".tmp").rename(path)


def test_a_keyed_job_rescaled_while_running_has_the_same_output(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    source = FileSource.json(str(folder), schema="key string, at timestamp, n long")
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("10min").with_timestamp_column("at")
    rows = env.from_source(source.monitor_continuously("200ms"), watermarks, "rows", uid="rows")
    windows = rows.key_by("key").window(TumblingEventTimeWindows.of("1min"))
    sums = windows.aggregate(F.sum("n").alias("total"), F.count("*").alias("rows")).uid("sums")
    sums.sink_to(FileSink.parquet(str(out)).mark_success()).uid("out")
    client = env.execute_async("rescaled")
    heard = JobEvents(client)

    write_keys(folder, 0)
    heard.wait_for_checkpoint_at(1)
    client.update_resource_requirements(3)
    write_keys(folder, 1)
    heard.wait_for_checkpoint_at(3)
    write_keys(folder, 2)
    client.update_resource_requirements({"sums": (1, 2), "rows": 2})
    heard.wait_for_checkpoint_at(2)
    write_keys(folder, 3)
    (folder / "_SUCCESS").touch()
    client.wait(WAIT_S)

    found = spark.read.parquet(str(out)).select("key", "total", "rows").collect()
    read = spark.read.schema("key string, at timestamp, n long").json(str(folder / "*.json"))
    expected = read.groupBy("key", F.window("at", "1 minute")).agg(
        F.sum("n").alias("total"), F.count("*").alias("rows")
    )
    assert sorted(found) == sorted(expected.select("key", "total", "rows").collect())
    assert [rescale.terminal_state.value for rescale in client.rescales if rescale.terminal_state] == ["COMPLETED"] * 2
    assert client.details.number_of_restarts == 0


def test_an_impossible_rescale_is_refused_with_the_vertex(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    source = FileSource.json(str(folder), schema="key string").monitor_continuously("200ms")
    env.set_max_parallelism(4).from_source(source, uid="rows").sink_to(FileSink.json(tmp_path / "out")).uid("out")
    client = env.execute_async("refused")
    client.wait_submitted(WAIT_S)

    with pytest.raises(RescaleError, match="no vertex 'sums': there are 'Source: "):
        client.update_resource_requirements({"sums": 2})
    with pytest.raises(RescaleError, match="is 5 subtasks, but its maximum parallelism is 4"):
        client.update_resource_requirements({"rows": 5})
    assert set(client.resource_requirements().values()) == {(1, 1)}
    client.cancel()


def test_an_adaptive_job_starts_with_the_available_slots(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write_keys(folder, 0)
    env.set_parallelism(9).set_scheduler("adaptive").set_resource_wait_timeout("200ms")
    rows = env.from_source(FileSource.json(str(folder), schema="key string, at string, n long"), uid="rows")
    counts = rows.key_by("key").aggregate(F.count("*").alias("rows")).uid("counts")
    counts.sink_to(FileSink.parquet(str(out)).mark_success()).uid("out")

    client = env.execute_async("adaptive")
    client.wait(WAIT_S)

    assert {vertex.parallelism for vertex in client.details.vertices} == {4}
    [begun] = client.rescales
    assert (begun.trigger.value, begun.vertices[0].desired_parallelism) == ("INITIAL_SCHEDULE", 9)
    newest = spark.read.parquet(str(out)).groupBy("key").agg(F.max("rows").alias("rows")).collect()
    assert {row["key"]: row["rows"] for row in newest} == {f"key-{key}": ROWS // KEYS for key in range(KEYS)}
