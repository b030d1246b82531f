"""Runs the queries in flykka, with exactly-once checkpoints every second."""

from __future__ import annotations

from pathlib import Path

from benchmarks.nexmark.sides import NotRunnableError
from examples.nexmark.queries import create_stream_views, sink, text
from examples.nexmark.source import EVENT_TIME, SCHEMA, WATERMARK_DELAY
from flykka import DataStream, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.errors import SqlError


class FlykkaSide:
    def __init__(self, rows_per_batch: int, parallelism: int) -> None:
        self._rows_per_batch = rows_per_batch
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")
        self._env.set_parallelism(parallelism).enable_checkpointing("1s", max_concurrent=2)

    def run(self, query: str, source: Path, place: Path) -> None:
        self._env.set_checkpoint_dir(str(place / "checkpoints"))
        files = FileSource.parquet(str(source), schema=SCHEMA).rows_per_batch(self._rows_per_batch)
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY).with_timestamp_column(EVENT_TIME)
        create_stream_views(self._env, self._env.from_source(files, watermarks, "events"))
        self._found(query).sink_to(sink(query, str(place / "output")))
        self._env.execute(query)

    def close(self) -> None:
        self._env.close()

    def _found(self, query: str) -> DataStream:
        try:
            return self._env.sql(text(query))
        except SqlError as refused:
            raise NotRunnableError(str(refused).splitlines()[0]) from None
