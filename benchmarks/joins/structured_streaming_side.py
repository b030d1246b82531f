"""The join as users of Structured Streaming write it: RocksDB as state store, one file of each side per trigger."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.joins.rows import CLICKS, IMPRESSIONS, SCHEMA, WITHIN_MINUTES
from benchmarks.query import LARGE_STATE, plain_session


class StructuredStreamingSide:
    """Runs the join in Structured Streaming, where every batch is a checkpoint."""

    def __init__(self, parallelism: int) -> None:
        self._spark = plain_session(**LARGE_STATE)

    def run(self, source: Path, place: Path) -> None:
        clicks, impressions = self._rows(source / CLICKS).alias("c"), self._rows(source / IMPRESSIONS).alias("i")
        seen_before = F.expr(f"i.at >= c.at - INTERVAL {WITHIN_MINUTES} MINUTES AND i.at <= c.at")
        pairs = clicks.join(impressions, (F.col("c.ad") == F.col("i.ad")) & seen_before).selectExpr(
            "c.ad AS ad", "i.id AS impression", "c.id AS click"
        )
        query = (
            pairs.writeStream.outputMode("append")
            .option("checkpointLocation", str(place / "checkpoints"))
            .trigger(availableNow=True)
            .format("parquet")
            .start(str(place / "output"))
        )
        query.awaitTermination()

    def _rows(self, folder: Path) -> DataFrame:
        rows = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        return rows.withWatermark("at", "1 second")

    def close(self) -> None:
        self._spark.stop()
