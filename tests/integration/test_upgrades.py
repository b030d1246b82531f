"""Tests a job with all types of operators that is rescaled repeatedly: each sale counts once.

The job has two sources that are half read, their union, overlapping windows, windows with late rows, three file sinks
and a sink that calls a function.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    ForeachBatchSink,
    JobClient,
    OutputTag,
    RestartStrategies,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.errors import JobCancelledError
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.monitoring.exception_history import ExceptionHistoryChanged, FailureOutcome
from flykka.messages.wire.message import Message
from tests.integration import arrivals
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

LATE_SHOP = 99
LATE_ROWS = 50


def start_upgradable_job(
    env: StreamExecutionEnvironment, folder: Path, parallelism: int, *, unaligned: bool
) -> JobClient:
    env.enable_checkpointing("1s", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    env.set_default_savepoint_directory(str(folder / "savepoints")).set_parallelism(parallelism)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    env.set_externalized_checkpoint_retention("RETAIN_ON_CANCELLATION")
    if unaligned:
        env.enable_unaligned_checkpoints()
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    even, odd = (
        env.from_source(
            FileSource.parquet(str(folder / name)).files_per_batch(1).monitor_continuously("50ms", until=arrivals.END),
            watermarks,
            name,
            uid=name,
        )
        for name in ("even", "odd")
    )
    sales, late = even.union(odd), OutputTag("late")
    by_shop = sales.key_by("shop")
    count = F.count("*").alias("sales")
    tumbling = by_shop.window(TumblingEventTimeWindows.of("1h")).side_output_late_data(late)
    hourly = tumbling.aggregate(count).uid("hourly")
    hourly.sink_to(FileSink.parquet(str(folder / "hourly"))).uid("hourly output")
    hourly.get_side_output(late).sink_to(FileSink.parquet(str(folder / "late")).files_per_checkpoint(1)).uid("late")
    sliding = by_shop.window(SlidingEventTimeWindows.of("3h", "1h")).aggregate(count).uid("sliding")
    sliding.sink_to(FileSink.parquet(str(folder / "sliding"))).uid("sliding output")

    def write(rows: DataFrame, checkpoint_id: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "all" / f"checkpoint={checkpoint_id}"))

    sales.sink_to(ForeachBatchSink(write)).uid("all").set_parallelism(1)
    return env.execute_async("upgrades")


def lose_a_task_manager(env: StreamExecutionEnvironment, client: JobClient) -> None:
    """Kill a TaskManager, and wait until the job has restored its own checkpoint and completed another one."""
    restarting, completed = threading.Event(), threading.Event()

    def listen(said: Message) -> None:
        # Earlier messages are sent to the listener too.
        match said:
            case ExceptionHistoryChanged(entry=entry) if entry.outcome is FailureOutcome.RESTARTING:
                restarting.set()
            case CheckpointCompleted() if restarting.is_set():
                completed.set()

    client.add_listener(listen)
    victim = env.cluster.system.find("/user/task-manager-1")
    assert victim is not None
    env.cluster.system.kill(victim)
    assert completed.wait(timeout=60)


def deliver_even_and_odd(files: list[Path], folder: Path) -> None:
    for file in files:
        shutil.copy(file, folder / ("odd" if int(file.stem[-2:]) % 2 else "even"))


def arrive_late(folder: Path, number: int) -> None:
    """Deliver rows of the first hour after later hours."""
    rows = {"shop": LATE_SHOP, "amount": number, "at": pd.to_datetime(range(LATE_ROWS), unit="s", utc=True)}
    frame = pd.DataFrame(rows).astype({"shop": "int64", "amount": "Int64"})
    frame.to_parquet(folder / "odd" / f"late-{number:02}.parquet", coerce_timestamps="us")


def sales_per_window(rows: DataFrame, *window: str) -> DataFrame:
    return (
        rows.groupBy(F.window("at", *window), "shop")
        .agg(F.count("*").alias("sales"))
        .select(F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "shop", "sales")
    )


def stop_with_savepoint(client: JobClient, folder: Path) -> Path:
    """Stop the job, and return its savepoint, moved elsewhere; remove the job's other files."""
    moved = Path(client.stop_with_savepoint()).rename(folder / "moved")
    shutil.rmtree(folder / "checkpoints")
    return moved


def cancel(client: JobClient, _folder: Path) -> Path:
    """Cancel the job, and return the checkpoint that remains."""
    client.cancel()
    with pytest.raises(JobCancelledError) as cancelled:
        client.wait(timeout=60)
    assert cancelled.value.checkpoint_path is not None
    return Path(cancelled.value.checkpoint_path)


@pytest.mark.parametrize(
    ("end", "parallelisms"),
    [
        (stop_with_savepoint, (2, 3)),
        pytest.param(stop_with_savepoint, (2, 3, 1), marks=pytest.mark.long),
        pytest.param(cancel, (2, 3, 1), marks=pytest.mark.long),
    ],
)
def test_a_job_with_all_types_of_operators_is_rescaled_repeatedly(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    end: Callable[[JobClient, Path], Path],
    parallelisms: tuple[int, ...],
) -> None:
    files = sorted(sales_files.glob("*.parquet"))
    for name in ("even", "odd"):
        (tmp_path / name).mkdir()
    path: Path | None = None
    for number, parallelism in enumerate(parallelisms):
        deliver_even_and_odd(files[number * 2 : number * 2 + 2], tmp_path)
        if number:
            arrive_late(tmp_path, number)
        env = environment() if path is None else environment().from_savepoint(str(path))
        client = start_upgradable_job(env, tmp_path, parallelism, unaligned=end is cancel)
        wait_checkpoint(client)
        if end is stop_with_savepoint and path is not None:
            # The job does not need this checkpoint after its own first checkpoint.
            shutil.rmtree(path)
        if number == 1:
            lose_a_task_manager(env, client)
        if number < len(parallelisms) - 1:
            path = end(client, tmp_path)
    for name in ("even", "odd"):
        (tmp_path / name / arrivals.END).touch()
    client.wait(timeout=120)

    everything = spark.read.parquet(str(tmp_path / "even"), str(tmp_path / "odd"))
    hourly, sliding, handed = (spark.read.parquet(str(tmp_path / name)) for name in ("hourly", "sliding", "all"))
    late = list((tmp_path / "late").glob("*.parquet"))
    in_time, is_late = everything.where(F.col("shop") != LATE_SHOP), F.col("shop") == LATE_SHOP
    assertDataFrameEqual(handed.drop("checkpoint"), everything)
    assertDataFrameEqual(hourly.where(~is_late), sales_per_window(in_time, "1 hour"))
    assertDataFrameEqual(sliding.where(~is_late), sales_per_window(in_time, "3 hours", "1 hour"))
    # Whether these rows are late depends on the job's progress when they arrived.
    counts = [row.sales for row in hourly.where(is_late).collect()]
    assert len(counts) <= 1
    assert sum(counts) + sum(len(pd.read_parquet(file)) for file in late) == (len(parallelisms) - 1) * LATE_ROWS
