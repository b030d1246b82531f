"""Structured Streaming: runs each query's SQL unchanged, over streaming views with the same watermark."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from benchmarks.nexmark.sides import NotRunnableError
from benchmarks.query import LARGE_STATE, plain_session
from examples.nexmark.queries import create_views, text
from examples.nexmark.source import EVENT_TIME, SCHEMA, WATERMARK_DELAY

_MODES = {"q17": "update"}
"""The output modes of queries that emit rows again; the other queries use append mode."""

_LARGE = frozenset({"q7", "q20"})
"""Queries that keep millions of bids, which in memory would fill the heap and cause permanent garbage collection."""


class StructuredStreamingSide:
    """Processes all existing files (`availableNow`), in batches, each of which is a checkpoint.

    State is in the default store, in memory with delta files, which is faster for such short windows, and in RocksDB
    for large state.
    """

    def __init__(self, files_per_batch: int) -> None:
        self._files_per_batch = files_per_batch
        self._spark = plain_session()

    def run(self, query: str, source: Path, place: Path) -> None:
        """Run a query to the end of its events; windows that are still open then are never emitted."""
        for setting, value in LARGE_STATE.items():
            if query in _LARGE:
                self._spark.conf.set(setting, value)
            else:
                self._spark.conf.unset(setting)
        events = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self._files_per_batch)
        create_views(events.parquet(str(source)).withWatermark(EVENT_TIME, WATERMARK_DELAY))

        def write(rows: DataFrame, number: int) -> None:
            rows.write.parquet(str(place / "output" / f"batch-{number}"))

        try:
            rows = self._spark.sql(text(query))
            writer = rows.writeStream.outputMode(_MODES.get(query, "append")).trigger(availableNow=True)
            running = writer.option("checkpointLocation", str(place / "checkpoints")).foreachBatch(write).start()
            running.awaitTermination()
        except PySparkException as refused:
            raise NotRunnableError(str(refused).splitlines()[0]) from refused

    def close(self) -> None:
        self._spark.stop()
