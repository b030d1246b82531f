"""The works as queries of Structured Streaming, with its default trigger: the next batch starts at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.latency.files import SCHEMA, changed
from benchmarks.latency.works import Committed, WorkName
from benchmarks.query import plain_session


def _selected(rows: DataFrame) -> DataFrame:
    return rows.select("file", (F.col("k") * 2).alias("twice"), "at").where("twice >= 0")


def _counted(rows: DataFrame) -> DataFrame:
    counts = rows.withWatermark("at", "0 seconds").groupBy(F.window("at", "1 second"), "k")
    return counts.agg(F.count("*").alias("n")).select(F.col("window.start").alias("window_start"), "k", "n")


_DEFINED: dict[WorkName, Callable[[DataFrame], DataFrame]] = {
    WorkName.STATELESS: _selected,
    WorkName.WINDOWS: _counted,
}


class StructuredStreamingSide:
    """Runs the works in Structured Streaming, where every batch is a checkpoint."""

    def __init__(self) -> None:
        self._spark = plain_session()
        self._query: StreamingQuery | None = None

    def start(self, work: WorkName, sources: list[Path], place: Path, interval: None) -> None:
        streams = [self._spark.readStream.schema(SCHEMA).parquet(str(folder)) for folder in sources]
        self._query = (
            _DEFINED[work](reduce(DataFrame.unionAll, streams))
            .writeStream.format("parquet")
            .outputMode("append")
            .option("checkpointLocation", str(place / "checkpoints"))
            .start(str(place / "output"))
        )

    def stop(self) -> None:
        assert self._query is not None, "a query was started"
        self._query.stop()

    def close(self) -> None:
        self._spark.stop()


def committed(output: Path) -> list[Committed]:
    """Return the files in the sink's log; readers that use the log see a batch as soon as its entry exists.

    An entry is a file with a line for each new file; every tenth entry also contains the lines of all earlier ones.
    """
    seen: set[str] = set()
    made: list[Committed] = []
    entries = [path for path in (output / "_spark_metadata").iterdir() if path.name.partition(".")[0].isdigit()]
    for entry in sorted(entries, key=lambda path: int(path.name.partition(".")[0])):
        lines = [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
        new = [path for path in lines if path not in seen]
        seen.update(new)
        files = tuple(Path(unquote(urlparse(path).path)) for path in new)
        if files:
            made.append(Committed(at=changed(entry), files=files))
    return made
