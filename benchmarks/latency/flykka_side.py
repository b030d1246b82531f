"""The works as jobs of flykka: monitored folders, and exactly-once file sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import functions as F

from benchmarks.latency.files import SCHEMA, changed
from benchmarks.latency.works import Committed, WorkName
from flykka import (
    DataStream,
    FileSink,
    FileSource,
    JobClient,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

DISCOVERY_INTERVAL = "1s"


def _selected(rows: DataStream) -> DataStream:
    return rows.select("file", (F.col("k") * 2).alias("twice"), "at").where("twice >= 0")


def _counted(rows: DataStream) -> DataStream:
    return rows.key_by("k").window(TumblingEventTimeWindows.of("1s")).aggregate(F.count("*").alias("n"))


_DEFINED: dict[WorkName, Callable[[DataStream], DataStream]] = {
    WorkName.STATELESS: _selected,
    WorkName.WINDOWS: _counted,
}


class FlykkaSide:
    def __init__(self) -> None:
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")
        self._client: JobClient | None = None

    def start(self, work: WorkName, sources: list[Path], place: Path, interval: str) -> None:
        self._env.enable_checkpointing(interval)
        self._env.set_checkpoint_dir(str(place / "checkpoints"))
        watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
        streams = [
            self._env.from_source(
                FileSource.parquet(str(folder), schema=SCHEMA).monitor_continuously(DISCOVERY_INTERVAL), watermarks
            )
            for folder in sources
        ]
        rows = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
        _DEFINED[work](rows).sink_to(FileSink.parquet(str(place / "output")))
        self._client = self._env.execute_async(str(work))

    @property
    def env(self) -> StreamExecutionEnvironment:
        return self._env

    @property
    def client(self) -> JobClient:
        assert self._client is not None, "a job was started"
        return self._client

    def stop(self) -> None:
        self.client.stop()

    def close(self) -> None:
        self._env.close()


def committed(output: Path) -> list[Committed]:
    """Return the published files, with the times at which they were renamed."""
    return [Committed(at=changed(path), files=(path,)) for path in output.glob("*.parquet")]
