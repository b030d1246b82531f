"""Runs jobs that lose their Spark session; a test starts this module in a separate process.

`python -m tests.spark_bridge.lost_sessions (ours|outside|theirs|large) FOLDER`. Each line that begins with `>` is the
outcome of a job: the type of its final error or FINISHED, the number of restarts, and the sum and number of its rows.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession

from flykka import FileSink, FileSource, RestartStrategies, StreamExecutionEnvironment
from flykka.errors import JobExecutionError
from flykka.messages.control.job import JobRestored
from flykka.messages.wire.message import Message

FILES = 4
FATAL_BATCH = 3
SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Loss:
    """A user's transformation that loses the session once, at the third batch."""

    def __init__(self, lose: Callable[[], None]) -> None:
        self._lose = lose
        self._lock = Lock()
        self._batches = 0

    def __call__(self, rows: DataFrame) -> DataFrame:
        with self._lock:
            self._batches += 1
            if self._batches == FATAL_BATCH:
                self._lose()
        return rows


def write_input(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        pq.write_table(pa.table({"number": [number]}), folder / f"{number}.parquet")


def run_job_that_loses_session(
    env: StreamExecutionEnvironment, folder: Path, name: str, lose: Callable[[], None]
) -> None:
    restores: list[Message] = []
    numbers = env.from_source(FileSource.parquet(str(folder / "input")).files_per_batch(1), uid=f"{name} numbers")
    numbers.transform(Loss(lose)).uid(f"{name} loss").sink_to(FileSink.parquet(str(folder / name))).uid(
        f"{name} output"
    )
    client = env.execute_async(name)
    client.add_listener(lambda message: restores.append(message) if isinstance(message, JobRestored) else None)
    try:
        client.wait()
    except JobExecutionError as failed:
        print(">", name, failed.cause.type_name, failed.cause.message, flush=True)
        return
    written = [row.number for row in env.spark.read.parquet(str(folder / name)).collect()]
    print(">", name, "FINISHED", sorted(written), env.spark.conf.get("spark.sql.session.timeZone"), flush=True)


def run_large(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Run a job that reads a row larger than the JVM's memory, and print its outcome."""
    (folder / "input").mkdir()
    with (folder / "input" / "row.csv").open("w") as file:
        file.write("value\n" + "x" * 40_000_000)
    rows = env.from_source(FileSource.csv(str(folder / "input"), schema="value STRING"), uid="rows")
    rows.sink_to(FileSink.json(str(folder / "large"))).uid("output")
    try:
        env.execute("large")
    except JobExecutionError as failed:
        print("> large", failed.cause.type_name, failed.cause.message, flush=True)


def main(whose: str, folder: Path) -> None:
    if whose == "large":
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 500m pyspark-shell"
        with StreamExecutionEnvironment.get_execution_environment("local[1]") as env:
            env.enable_checkpointing("50ms").set_checkpoint_dir(folder / "checkpoints")
            run_large(env, folder)
        return
    write_input(folder / "input")
    if whose == "theirs":
        builder = SparkSession.builder.master("local[1]")
        for key, text in SETTINGS.items():
            builder = builder.config(key, text)
        builder.getOrCreate()
    with StreamExecutionEnvironment.get_execution_environment("local[1]") as env:
        env.enable_checkpointing("200ms").set_checkpoint_dir(folder / "checkpoints")
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=3, delay="0s"))
        if whose == "theirs":
            run_job_that_loses_session(env, folder, "stopped", lambda: env.spark.stop())
            return
        gateway = env.spark.sparkContext._gateway
        assert gateway is not None
        jvm = gateway.proc.pid
        if whose == "outside":
            run_job_that_loses_session(env, folder, "stopped from outside", lambda: env.spark.sparkContext._jsc.stop())
            return
        run_job_that_loses_session(env, folder, "stopped by the program", lambda: env.spark.stop())
        run_job_that_loses_session(env, folder, "killed", lambda: os.kill(jvm, signal.SIGKILL))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
