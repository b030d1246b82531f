"""Plain Spark: one job over all files, which is the upper limit for this query on the machine."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bids import SCHEMA
from benchmarks.query import aggregated, plain_session


class SparkBatch:
    def __init__(self) -> None:
        self._spark = plain_session()

    def run(self, source: Path, output: Path, scratch: Path) -> None:
        aggregated(self._spark.read.schema(SCHEMA).parquet(str(source))).write.parquet(str(output))

    def close(self) -> None:
        self._spark.stop()
