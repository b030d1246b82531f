"""Small programs, from the environment to the output folder."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from weakref import ref

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    JobStatus,
    RestartStrategies,
    StreamExecutionEnvironment,
    Trace,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import (
    ClusterError,
    InsufficientSlotsError,
    JobCancelledError,
    JobExecutionError,
    ProgramError,
    StreamTypeError,
    UnknownTaskManagerError,
)
from flykka.messages.attempt.answers import WorkFailed
from flykka.messages.control.registration import RegisterTaskManager

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
]

LATE_BY_A_SECOND = WatermarkStrategy.for_bounded_out_of_orderness("1s").with_timestamp_column("at")


@pytest.fixture
def bids(tmp_path: Path) -> Path:
    """3,000 bids over five minutes, in three files in time order."""
    folder = tmp_path / "bids"
    folder.mkdir()
    for number in range(3):
        ids = range(number * 1_000, (number + 1) * 1_000)
        table = pa.table(
            {
                "auction": [bid % 7 for bid in ids],
                "price": [bid * 31 % 101 for bid in ids],
                "at": pa.array([bid * 100_000 for bid in ids], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"bids-{number}.parquet")
    return folder


def aggregates() -> tuple[Column, ...]:
    return F.count("*").alias("bids"), F.max("price").alias("dearest"), F.avg("price").alias("mean")


def count(env: StreamExecutionEnvironment, bids: Path, output: Path, parallelism: int = 1) -> None:
    counted = (
        env.from_source(FileSource.parquet(str(bids)), LATE_BY_A_SECOND, "bids", uid="bids")
        .key_by("auction")
        .window(TumblingEventTimeWindows.of("1min"))
        .aggregate(*aggregates())
        .uid("counts")
        .set_parallelism(parallelism)
    )
    counted.sink_to(FileSink.parquet(str(output))).uid("output").set_parallelism(parallelism)


def bids_per_minute(spark: SparkSession, bids: Path) -> DataFrame:
    window = F.window("at", "1 minute")
    counted = spark.read.parquet(str(bids)).groupBy(window, "auction").agg(*aggregates())
    return counted.select("window.start", "window.end", "auction", "bids", "dearest", "mean").toDF(
        "window_start", "window_end", "auction", "bids", "dearest", "mean"
    )


@pytest.mark.parametrize("parallelism", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_job_writes_the_result_of_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: Path, tmp_path: Path, parallelism: int
) -> None:
    env.enable_checkpointing("200ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
    count(env, bids, tmp_path / "output", parallelism)

    result = env.execute("counts")

    assert result.job_name == "counts"
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), bids_per_minute(spark, bids))


def test_a_finished_job_leaves_only_output_run_record_and_archive(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    count(env, bids, tmp_path / "output")

    env.execute()

    left = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(bids)]
    checkpoints = tmp_path / "checkpoints"
    assert {path.parent for path in left} == {tmp_path / "output", checkpoints / "runs", checkpoints / "archives"}


def test_transforms_run_in_the_order_of_their_declaration(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    (
        env.from_source(FileSource.parquet(str(bids)), WatermarkStrategy.no_watermarks(), "bids")
        .where(F.col("price") > 50)
        .transform(lambda rows: rows.withColumn("price", F.col("price") * 2))
        .where("price > 150")
        .select("auction", "price")
        .sink_to(FileSink.parquet(str(tmp_path / "output")))
    )

    env.execute()

    expected = spark.read.parquet(str(bids)).where("price > 75").selectExpr("auction", "price * 2 AS price")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), expected)


@pytest.mark.long  # The next test also runs jobs one after another.
def test_an_environment_runs_one_job_after_another(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        count(env, bids, tmp_path / name)
        env.execute(name)

    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "first")), spark.read.parquet(str(tmp_path / "second")))


def test_an_ended_jobs_code_is_released_when_the_next_job_starts(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    functions: list[ref[object]] = []

    for number in range(2):

        def cheap(rows: DataFrame) -> DataFrame:
            return rows.where("price < 50")

        functions.append(ref(cheap))
        read = env.from_source(FileSource.parquet(str(bids)), uid=f"bids-{number}")
        read.transform(cheap).uid(f"cheap-{number}").sink_to(FileSink.parquet(str(tmp_path / f"{number}")))
        env.execute(f"run {number}")
        del cheap, read
        gc.collect()

    assert [function() is not None for function in functions] == [False, True]


def test_a_failing_function_fails_the_job_with_its_own_message(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    @F.udf("long")
    def refuse(price: int) -> int:
        raise ValueError(f"no bid may be {price}")

    source = env.from_source(FileSource.parquet(str(bids)), WatermarkStrategy.no_watermarks(), "bids")
    refused = source.transform(lambda rows: rows.withColumn("price", refuse("price")))
    refused.sink_to(FileSink.parquet(str(tmp_path / "output")))
    env.set_restart_strategy(RestartStrategies.no_restart())

    with pytest.raises(JobExecutionError, match="no bid may be") as failed:
        env.execute("refusing")
    assert failed.value.flight_record is not None
    messages = [turn.message for turn in Trace.open(failed.value.flight_record)]
    assert any(isinstance(message, WorkFailed) for message in messages)


def test_two_jobs_of_an_environment_may_have_the_same_uids(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    endless = FileSource.parquet(str(bids)).monitor_continuously("50ms", until="_SUCCESS")
    clients = []
    for name, condition in (("cheap", "price < 50"), ("dear", "price >= 50")):
        source = env.from_source(endless, WatermarkStrategy.no_watermarks(), "bids", uid="bids")
        source.where(condition).uid("wanted").sink_to(FileSink.parquet(str(tmp_path / name))).uid("output")
        clients.append(env.execute_async(name))
    (bids / "_SUCCESS").touch()
    for client in clients:
        client.wait(timeout=120)

    cheap, dear = (pq.read_table(tmp_path / name)["price"].to_pylist() for name in ("cheap", "dear"))
    assert (bool(cheap), bool(dear)) == (True, True)
    assert max(cheap) < 50 <= min(dear)
    assert len(cheap) + len(dear) == pq.read_table(bids).num_rows


def test_a_running_job_can_be_cancelled(env: StreamExecutionEnvironment, bids: Path, tmp_path: Path) -> None:
    endless = FileSource.parquet(str(bids)).monitor_continuously("50ms", until="_SUCCESS")
    source = env.from_source(endless, WatermarkStrategy.no_watermarks(), "bids", uid="bids")
    source.sink_to(FileSink.parquet(str(tmp_path / "output")))
    client = env.execute_async("endless")

    client.cancel()

    with pytest.raises(JobCancelledError):
        client.wait(timeout=30)
    assert client.status is JobStatus.CANCELED


def test_a_killed_task_manager_is_replaced_under_an_unused_name(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    count(env, bids, tmp_path / "output")
    env.execute()
    registered = threading.Event()
    env.cluster.system.add_delivery_hook(
        lambda _to, message, _from: registered.set() if isinstance(message, RegisterTaskManager) else None
    )

    env.cluster.kill_task_manager("task-manager-2")

    assert registered.wait(timeout=10)
    assert env.cluster.task_managers() == ("task-manager-1", "task-manager-3")
    with pytest.raises(UnknownTaskManagerError, match="there are: task-manager-1, task-manager-3"):
        env.cluster.kill_task_manager("task-manager-2")


def test_a_job_that_needs_too_many_slots_is_refused_at_once(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    count(env, bids, tmp_path / "output", parallelism=5)

    with pytest.raises(InsufficientSlotsError, match="needs 5 slots but the cluster has 4"):
        env.execute()


def test_a_refused_program_may_be_corrected_or_repeated_and_runs_once(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: Path, tmp_path: Path
) -> None:
    def write(output: str) -> None:
        source = env.from_source(FileSource.parquet(str(bids)), LATE_BY_A_SECOND, "bids", uid="bids")
        source.set_parallelism(1).sink_to(FileSink.parquet(str(tmp_path / output))).uid("output")

    env.set_parallelism(5)
    write("refused")
    with pytest.raises(InsufficientSlotsError):
        env.execute()
    write("mended")
    with pytest.raises(InsufficientSlotsError):
        env.execute()

    env.set_parallelism(1).execute()

    assert spark.read.parquet(str(tmp_path / "mended")).count() == 3_000
    assert not (tmp_path / "refused").exists()


def test_an_interrupted_submission_may_be_repeated(
    env: StreamExecutionEnvironment, bids: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    count(env, bids, tmp_path / "output")
    with monkeypatch.context() as patch:
        patch.setattr(LocalCluster, "submit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.execute("counts")

    assert env.execute("counts").job_name == "counts"


def test_the_first_job_decides_the_number_of_slots_if_unset(
    spark: SparkSession, env: StreamExecutionEnvironment
) -> None:
    undecided = StreamExecutionEnvironment.get_execution_environment()

    with pytest.raises(ClusterError, match="the first job decides"):
        undecided.cluster.task_managers()
    assert env.cluster is env.cluster


def test_an_event_time_column_must_be_a_timestamp_of_the_source(env: StreamExecutionEnvironment, bids: Path) -> None:
    source = FileSource.parquet(str(bids))
    watermarks = WatermarkStrategy.for_monotonous_timestamps()

    with pytest.raises(StreamTypeError, match="no event-time column 'time'"):
        env.from_source(source, watermarks.with_timestamp_column("time"), "bids")
    with pytest.raises(StreamTypeError, match="'price' is of type bigint"):
        env.from_source(source, watermarks.with_timestamp_column("price"), "bids")
    with pytest.raises(StreamTypeError, match="with_timestamp_column"):
        env.from_source(source, watermarks, "bids")


def test_an_environment_without_operators_runs_nothing(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match="no operators"):
        env.execute()


def test_closing_does_not_stop_an_adopted_session(spark: SparkSession) -> None:
    StreamExecutionEnvironment.get_execution_environment().close()

    assert spark.range(3).count() == 3
