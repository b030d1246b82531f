"""The query in Structured Streaming, which is stopped and started repeatedly."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.query import plain_session
from benchmarks.recovery import totals

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_LOOK_S = 0.005
SECONDS_AT_MOST = 120.0


class StreamingTotals:
    """Runs the query from its creation on; its input is the files in `folder / "input"`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spark = plain_session()
        self._query = self._started()

    def settle(self) -> None:
        """Wait until all arrived rows are processed, and therefore in a checkpoint."""
        self._query.processAllAvailable()

    def recover(self) -> float:
        """Stop and start the query; return the seconds until it has finished a batch."""
        before = self._committed()
        begun = time.monotonic()
        self._query.stop()
        self._query = self._started()
        while self._committed() == before:
            if time.monotonic() - begun > SECONDS_AT_MOST:
                raise TimeoutError("no batch was finished behind the restart")
            time.sleep(_LOOK_S)
        return time.monotonic() - begun

    def close(self) -> None:
        self._query.stop()
        self._spark.stop()

    def _started(self) -> StreamingQuery:
        rows = self._spark.readStream.schema(totals.SCHEMA).option("maxFilesPerTrigger", 1)
        window = F.window(totals.EVENT_TIME, totals.WINDOW)
        summed = (
            rows.parquet(str(self._folder / "input"))
            .withWatermark(totals.EVENT_TIME, totals.WATERMARK_DELAY)
            .groupBy(window, totals.KEY)
            .agg(*totals.aggregates())
        )
        return (
            summed.writeStream.format("parquet")
            .outputMode("append")
            .option("checkpointLocation", str(self._folder / "checkpoints"))
            .start(str(self._folder / "output"))
        )

    def _committed(self) -> int:
        commits = (self._folder / "checkpoints" / "commits").glob("[0-9]*")
        return max((int(path.name) for path in commits), default=-1)
