"""Tests cached streams: one batch job stores rows, and later jobs read them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import httpx
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import (
    CachedDataStream,
    DataStream,
    FileSink,
    FileSource,
    JobExecutionResult,
    RestartStrategies,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.errors import JobExecutionError, ProgramError

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

BATCHES = "batches"


class Doubled(RichFunction):
    schema = "id long, at timestamp, twice long"

    def open(self, context: RuntimeContext) -> None:
        self.batches = context.get_int_counter(BATCHES)

    def __call__(self, rows: DataFrame) -> DataFrame:
        self.batches.add(1)
        return rows.withColumn("twice", F.col("id") * 2)


class UnlessThere(RichFunction):
    """Fails in a job while a file exists."""

    schema = Doubled.schema

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_job = False

    def open(self, context: RuntimeContext) -> None:
        self.is_job = bool(context.job_id)

    def __call__(self, rows: DataFrame) -> DataFrame:
        if self.is_job and self.path.exists():
            raise OSError("there it is")
        return rows


class Waiting(RichFunction):
    schema = Doubled.schema
    may_go = Event()

    def open(self, context: RuntimeContext) -> None:
        self.is_job = bool(context.job_id)

    def __call__(self, rows: DataFrame) -> DataFrame:
        if self.is_job:
            assert self.may_go.wait(60), "it was not let go"
        return rows


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[StreamExecutionEnvironment]:
    environment = StreamExecutionEnvironment.get_execution_environment(task_managers=1, slots_per_task_manager=3)
    environment.set_runtime_mode("BATCH").set_checkpoint_dir(tmp_path / "checkpoints")
    environment.set_restart_strategy(RestartStrategies.no_restart())
    yield environment
    environment.close()


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Path:
    folder = tmp_path / "numbers"
    ids = spark.range(90, numPartitions=2)
    ids.withColumn("at", F.timestamp_seconds(F.col("id") * 60)).write.parquet(str(folder))
    return folder


def doubled(env: StreamExecutionEnvironment, numbers: Path) -> DataStream:
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    source = FileSource.parquet(str(numbers)).files_per_batch(1)
    return env.from_source(source, in_order, "numbers", uid="numbers").transform(Doubled()).uid("doubled")


def write_stream(env: StreamExecutionEnvironment, stream: DataStream, folder: Path) -> JobExecutionResult:
    stream.sink_to(FileSink.parquet(str(folder)))
    return env.execute(f"to {folder.name}")


def computes(result: JobExecutionResult) -> bool:
    """Return whether the function was called in the job."""
    return bool(result.accumulator_results.get(BATCHES))


def test_later_jobs_read_cached_rows_until_they_are_released(
    spark: SparkSession, env: StreamExecutionEnvironment, numbers: Path, tmp_path: Path
) -> None:
    cached = doubled(env, numbers).cache()
    assert isinstance(cached, CachedDataStream)

    first = write_stream(env, cached, tmp_path / "all")
    cached.where("twice >= 100").sink_to(FileSink.parquet(str(tmp_path / "large")))
    hours = cached.key_by(F.lit(1).alias("one")).window(TumblingEventTimeWindows.of("1h"))
    sums = hours.aggregate(F.sum("twice").alias("sum"), F.count("*").alias("n"))
    second = write_stream(env, sums, tmp_path / "hours")
    cached.invalidate()
    third = write_stream(env, cached, tmp_path / "again")
    shutil.rmtree(tmp_path / "checkpoints" / "datasets")
    fourth = write_stream(env, cached.select("twice"), tmp_path / "twice")

    assert [computes(each) for each in (first, second, third, fourth)] == [True, False, True, True]
    expected = spark.range(90).selectExpr("id", "timestamp_seconds(id * 60) AS at", "id * 2 AS twice")
    for name in ("all", "again"):
        rows = spark.read.parquet(str(tmp_path / name))
        assert rows.count() == 90
        assert expected.exceptAll(rows).isEmpty()
    assert sorted(spark.read.parquet(str(tmp_path / "large")).toPandas()["id"]) == list(range(50, 90))
    found = spark.read.parquet(str(tmp_path / "hours")).orderBy("window_start").select("sum", "n").collect()
    assert [tuple(row) for row in found] == [(59 * 60, 60), (2 * sum(range(60, 90)), 30)]
    assert spark.read.parquet(str(tmp_path / "twice")).count() == 90
    env.close()
    assert not (tmp_path / "checkpoints" / "datasets").exists()


def test_cached_rows_of_a_failed_job_are_recomputed(
    spark: SparkSession, env: StreamExecutionEnvironment, numbers: Path, tmp_path: Path
) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    every = doubled(env, numbers)
    cached = every.where("id > 1000").cache()

    with pytest.raises(JobExecutionError, match="there it is"):
        write_stream(env, every.union(cached).transform(UnlessThere(obstacle)), tmp_path / "a")
    obstacle.unlink()
    second = write_stream(env, cached, tmp_path / "b")
    third = write_stream(env, cached.union(cached), tmp_path / "c")

    assert [computes(each) for each in (second, third)] == [True, False]
    assert not list((tmp_path / "c").glob("*.parquet"))


def test_cached_rows_are_listed_and_deleted_over_http(
    env: StreamExecutionEnvironment, numbers: Path, tmp_path: Path
) -> None:
    cached = doubled(env.enable_rest(), numbers).transform(Waiting()).cache()
    cached.sink_to(FileSink.parquet(str(tmp_path / "a")))
    client = env.execute_async("waiting")
    assert env.rest_address is not None

    headers = {"Authorization": f"Bearer {env.rest_token}"}
    with httpx.Client(base_url=env.rest_address, timeout=30, headers=headers) as http:
        (begun,) = http.get("/datasets").json()["dataSets"]
        with pytest.raises(ProgramError, match="still being computed by job 'waiting': wait for its end"):
            write_stream(env, cached, tmp_path / "b")
        Waiting.may_go.set()
        client.wait(timeout=60)
        (listed,) = http.get("/datasets").json()["dataSets"]
        answer = http.delete(f"/v1/datasets/{listed['id']}")
        trigger = answer.json()["request-id"]
        while (status := http.get(f"/datasets/delete/{trigger}").json())["status"]["id"] == "IN_PROGRESS":
            continue
        left = http.get("/v1/datasets").json()
        refused = http.delete("/datasets/mine").status_code
    again = env.execute("again")

    assert (begun, listed["isComplete"]) == ({"id": listed["id"], "isComplete": False}, True)
    assert (answer.status_code, refused) == (202, 400)
    assert status == {"status": {"id": "COMPLETED"}, "operation": {}}
    assert left == {"dataSets": []}
    assert computes(again)


def test_a_cached_stream_may_derive_from_another_and_from_a_dataframe(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    numbers = env.from_dataframe(spark.range(10), uid="numbers").cache()
    even = numbers.where("id % 2 = 0").uid("even").cache()
    write_stream(env, even, tmp_path / "first")
    even.sink_to(FileSink.parquet(str(tmp_path / "second"))).uid("output")

    both = [node.uid for node in env.get_stream_graph().nodes]
    even.invalidate()
    first = [node.uid for node in env.get_stream_graph().nodes]
    numbers.invalidate()
    none = [node.uid for node in env.get_stream_graph().nodes]
    env.execute("second")

    computed = ["cached-1-2", "even", "cached-2-2", "output"]
    assert both == ["cached-2-2", "output"]
    assert first == [*computed, "cached-2-2-sink"]
    assert none == ["numbers", *computed, "cached-1-2-sink", "cached-2-2-sink"]
    rows = spark.read.parquet(str(tmp_path / "second")).toPandas()
    assert sorted(rows["id"]) == [0, 2, 4, 6, 8]


@pytest.mark.long
def test_an_application_resumed_in_another_driver_finds_its_cached_rows(
    spark: SparkSession, numbers: Path, tmp_path: Path
) -> None:
    def application() -> tuple[StreamExecutionEnvironment, CachedDataStream]:
        env = StreamExecutionEnvironment.get_execution_environment(
            slots_per_task_manager=3, high_availability=tmp_path / "store"
        )
        cached = doubled(env.set_runtime_mode("BATCH"), numbers).cache()
        write_stream(env, cached, tmp_path / "a")
        return env, cached

    env, _ = application()
    env.abandon()
    env, cached = application()
    second = write_stream(env, cached, tmp_path / "b")
    env.close()

    assert not computes(second)
    assert (spark.read.parquet(str(tmp_path / "a")).count(), spark.read.parquet(str(tmp_path / "b")).count()) == (
        90,
        90,
    )


def test_only_batch_jobs_can_cache_a_stream(env: StreamExecutionEnvironment, numbers: Path, tmp_path: Path) -> None:
    cached = doubled(env.set_runtime_mode("STREAMING"), numbers).cache()

    with pytest.raises(ProgramError, match=r"cached doubled.*only in batch jobs.*set_runtime_mode\('BATCH'\)"):
        write_stream(env, cached, tmp_path / "a")
