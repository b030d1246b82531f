"""flykka, with exactly-once checkpoints every second."""

from __future__ import annotations

from pathlib import Path

from benchmarks.nexmark.sides import NotRunnableError
from examples.nexmark.programs import PROGRAMS, Views
from examples.nexmark.source import EVENT_TIME, SCHEMA, WATERMARK_DELAY
from flykka import DataStream, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy


class FlykkaSide:
    """flykka, as it is."""

    def __init__(self, rows_per_batch: int, parallelism: int) -> None:
        self._rows_per_batch = rows_per_batch
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")
        self._env.set_parallelism(parallelism).enable_checkpointing("1s", max_concurrent=2)

    def run(self, query: str, source: Path, place: Path) -> None:
        """Run a query to the end of its events."""
        self._env.set_checkpoint_dir(str(place / "checkpoints"))
        files = FileSource.parquet(str(source), schema=SCHEMA).rows_per_batch(self._rows_per_batch)
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY).with_timestamp_column(EVENT_TIME)
        views = Views.of(self._env.from_source(files, watermarks, "events"), self._env.spark)
        _found(query, views).sink_to(FileSink.parquet(str(place / "output")))
        self._env.execute(query)

    def close(self) -> None:
        """End the cluster and its session."""
        self._env.close()


def _found(query: str, views: Views) -> DataStream:
    """The rows of a query: of its DataStream program, as there is no SQL of streams yet."""
    if query not in PROGRAMS:
        raise NotRunnableError("not yet runnable: there is no SQL of streams, and no DataStream program of it")
    return PROGRAMS[query](views)
