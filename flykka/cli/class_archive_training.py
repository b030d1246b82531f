"""Runs a small job in a separate process, so that the JVM records the classes that Spark loads: `... FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.spark_bridge.session.class_archive import recording_options
from flykka.spark_bridge.session.gateway import close_gateway
from flykka.spark_bridge.session.session import spark_session, stop_session

_ROW = '{{"time": "2026-01-01T00:0{minute}:00Z", "key": "a", "amount": 1.5}}\n'


def record(file: Path) -> None:
    """Run a job from JSON through windows to Parquet. The JVM writes the loaded classes to `file` when it exits."""
    session = spark_session(config={"spark.driver.extraJavaOptions": recording_options(file)})
    with TemporaryFolder("classes") as folder:
        rows, out = folder / "rows", folder / "out"
        rows.mkdir()
        for minute in range(4):
            (rows / f"{minute}.json").write_text(_ROW.format(minute=minute))
        with StreamExecutionEnvironment.get_execution_environment() as env:
            env.enable_checkpointing("1s").set_checkpoint_dir(folder / "checkpoints")
            source = FileSource.json(str(rows), schema="time timestamp, key string, amount double")
            watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("time")
            keyed = env.from_source(source, watermarks).where("amount > 1").key_by("key")
            sums = keyed.window(TumblingEventTimeWindows.of("1min")).aggregate(F.sum("amount").alias("sum"))
            sums.sink_to(FileSink.parquet(str(out)))
            env.execute("classes")
        session.read.parquet(str(out)).collect()
    stop_session(session)
    close_gateway()


if __name__ == "__main__":
    record(Path(sys.argv[1]))
