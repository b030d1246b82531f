"""The works as users of Structured Streaming write them: RocksDB as state store, one file per trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from benchmarks.keyed.works import ALARM, ALARM_AFTER_MS, GAP_SECONDS, ROW, WorkName
from benchmarks.query import LARGE_STATE, plain_session

OUTPUT = "k long, n long, what string"


class CountsAndAlarm(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._n = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        kept = self._n.get() if self._n.exists() else None
        n = 0 if kept is None else kept[0]
        for frame in rows:
            if n == 0:
                first_ms = int(frame["at"].iloc[0].timestamp() * 1000)
                self._handle.registerTimer(first_ms + ALARM_AFTER_MS)
            counts = range(n + 1, n + len(frame) + 1)
            n += len(frame)
            yield pd.DataFrame({"k": key[0], "n": counts, "what": ROW})
        self._n.update((n,))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"k": [key[0]], "n": [0], "what": [ALARM]})

    def close(self) -> None: ...


def _aggregated(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"), F.max("v").alias("m"))


def _processed(rows: DataFrame) -> DataFrame:
    return (
        rows.withWatermark("at", "1 second")
        .groupBy("k")
        .transformWithStateInPandas(
            CountsAndAlarm(), outputStructType=OUTPUT, outputMode="Update", timeMode="EventTime"
        )
    )


def _sessions(rows: DataFrame) -> DataFrame:
    session = F.session_window("at", f"{GAP_SECONDS} seconds").alias("session")
    counts = rows.withWatermark("at", "1 second").groupBy(session, "k").agg(F.count("*").alias("n"))
    return counts.select("k", "n", F.col("session.end").alias("ended"))


_DEFINED: dict[WorkName, tuple[str, str, Callable[[DataFrame], DataFrame]]] = {
    WorkName.RUNNING: ("k long, v long", "update", _aggregated),
    WorkName.LARGE_STATE: ("k long, v long", "update", _aggregated),
    WorkName.PROCESS_FUNCTION: ("k long, at timestamp", "update", _processed),
    WorkName.PROCESS_TABLE: ("k long, at timestamp", "update", _processed),
    WorkName.SESSIONS: ("k long, at timestamp", "append", _sessions),
    WorkName.DEDUPLICATE: (
        "k long, at timestamp",
        "append",
        # The delay of the watermark is the time within which rows are compared.
        lambda rows: rows.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["k"]),
    ),
}


class StructuredStreamingSide:
    """Runs the works in Structured Streaming, where every batch is a checkpoint."""

    def __init__(self, parallelism: int) -> None:
        self._spark = plain_session(**LARGE_STATE)

    def run(self, work: WorkName, source: Path, place: Path) -> None:
        schema, mode, define = _DEFINED[work]
        output = place / "output"

        def write(rows: DataFrame, number: int) -> None:
            rows.write.parquet(str(output / f"batch-{number}"))

        rows = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
        query = (
            define(rows)
            .writeStream.outputMode(mode)
            .option("checkpointLocation", str(place / "checkpoints"))
            .trigger(availableNow=True)
            .foreachBatch(write)
            .start()
        )
        query.awaitTermination()

    def close(self) -> None:
        self._spark.stop()
