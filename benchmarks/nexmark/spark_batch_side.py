"""Plain Spark: one job over all events. It also compares the outputs of other engines with its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.query import plain_session
from examples.nexmark.generator import EVENTS_PER_SECOND, FIRST_EVENT_MICROS
from examples.nexmark.queries import create_views, digest, newest, text, written
from examples.nexmark.source import SCHEMA

LEFT_OPEN_SECONDS = 20
"""Seconds before the last event: engines that do not end event time do not emit windows that end later."""

_WINDOW_ENDS = {
    "q5": "endtime",
    "q7": "timestamp_seconds(10 * (unix_seconds(dateTime) div 10 + 1))",
    "q8": "starttime + INTERVAL 10 SECONDS",
    "q11": "endtime",
    "q12": "endtime",
}
"""For each query with windows, the expression for a row's window end."""


class SparkBatchSide:
    def __init__(self) -> None:
        self.session = plain_session()

    def run(self, query: str, source: Path, place: Path) -> None:
        create_views(self.session.read.schema(SCHEMA).parquet(str(source)))
        self.session.sql(text(query)).write.parquet(str(place / "output"))

    def close(self) -> None:
        self.session.stop()


def differences(
    spark: SparkSession, query: str, found: Path, expected: Path, events: int, *, closed: bool
) -> str | None:
    """Return how an output differs from that of the batch, or None; if `closed`, only closed windows are compared.

    Rows are compared in any order, with their multiplicity. If rows are emitted again, only the newest are compared.
    """
    expected_rows = spark.read.parquet(str(expected))
    is_sure = F.lit(True)
    if closed and query in _WINDOW_ENDS:
        is_sure = F.expr(_WINDOW_ENDS[query]) <= F.lit(_last_event(events) - timedelta(seconds=LEFT_OPEN_SECONDS))
    found_rows = written(query, str(found), spark, expected_rows.schema)
    ours, theirs = (digest(rows.where(is_sure)) for rows in (newest(query, found_rows), expected_rows))
    if ours == theirs:
        return None
    return f"wrote {ours[0]:,} rows and the batch {theirs[0]:,}{', and not the same' * (ours[0] == theirs[0])}"


def _last_event(events: int) -> datetime:
    return datetime.fromtimestamp(FIRST_EVENT_MICROS / 1e6 + events / EVENTS_PER_SECOND, UTC)
