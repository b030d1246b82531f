"""Spark's Structured Streaming: all existing files (`availableNow`), in batches, in append mode."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bids import SCHEMA
from benchmarks.query import EVENT_TIME, WATERMARK_DELAY, aggregated, plain_session


class StructuredStreaming:
    """Runs the query as a stream, in which every batch is a checkpoint.

    State is in the default store, in memory with delta files; RocksDB took twice the time for such short-lived windows.
    """

    def __init__(self, files_per_batch: int) -> None:
        self._files_per_batch = files_per_batch
        self._spark = plain_session()

    def run(self, source: Path, output: Path, scratch: Path) -> int:
        """Run the query once; it never emits the windows that are open at the end of its input."""
        bids = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self._files_per_batch)
        windows = aggregated(bids.parquet(str(source)).withWatermark(EVENT_TIME, WATERMARK_DELAY))
        query = (
            windows.writeStream.format("parquet")
            .outputMode("append")
            .option("checkpointLocation", str(scratch / "checkpoints"))
            .trigger(availableNow=True)
            .start(str(output))
        )
        query.awaitTermination()
        return len(list((scratch / "checkpoints" / "commits").glob("[0-9]*")))

    def close(self) -> None:
        self._spark.stop()
