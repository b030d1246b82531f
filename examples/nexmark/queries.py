"""The queries of Nexmark, q0 to q22, over the views `person`, `auction`, `bid` and the table `side_input`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from examples.nexmark.source import VIEWS, view
from flykka import DeltaSink, FileSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka import DataStream, StreamExecutionEnvironment
    from flykka.connectors import Sink

QUERIES = tuple(f"q{number}" for number in range(23))

_SIDE_INPUT_KEYS = 10_000

_NEWEST = {
    "q9": ("id", "struct(price, -unix_micros(bid_dateTime))"),
    "q15": ("day", "total_bids"),
    "q16": ("channel, day", "total_bids"),
    "q17": ("auction, day", "total_bids"),
    "q18": ("auction, bidder", "dateTime"),
    "q19": ("auction, rank_number", "struct(price, -unix_micros(dateTime))"),
}
"""For queries whose rows replace others: the key columns, and an expression that is greatest in a key's newest row."""

_DELETING = {"q4": ("category",), "q6": ("id", "seller")}
"""For queries whose rows are also deleted: the key columns."""


def text(query: str) -> str:
    """Return the SQL of a query by name."""
    return Path(__file__).with_name(f"{query}.sql").read_text(encoding="utf-8")


def side_input(session: SparkSession) -> DataFrame:
    """Return the bounded table of q13: `key bigint, value string`."""
    return session.range(_SIDE_INPUT_KEYS).select(F.col("id").alias("key"), F.col("id").cast("string").alias("value"))


def create_views(events: DataFrame) -> None:
    """Register the views of a table of events, or of a Structured Streaming stream, in its session."""
    for name in VIEWS:
        view(name, events).createOrReplaceTempView(name)
    side_input(events.sparkSession).createOrReplaceTempView("side_input")


def create_stream_views(env: StreamExecutionEnvironment, events: DataStream) -> None:
    """Register the views of a stream of events in its environment, and `side_input` in the session."""
    for name in VIEWS:
        env.create_temporary_view(name, view(name, events))
    side_input(env.spark).createOrReplaceTempView("side_input")


def sink(query: str, path: str) -> Sink:
    """Return a sink for the rows of a query: files, or a Delta table of the current rows if rows are deleted."""
    if query in _DELETING:
        return DeltaSink.upsert(path, keys=_DELETING[query])
    return FileSink.parquet(path)


def written(query: str, path: str, session: SparkSession, schema: StructType) -> DataFrame:
    """Read the rows that a sink for the query, or any other program, has written as files below `path`."""
    files = [path]
    if query in _DELETING:
        from deltalake import DeltaTable

        files = DeltaTable(path).file_uris()
    return session.read.schema(schema).option("recursiveFileLookup", True).parquet(*files)


def newest(query: str, rows: DataFrame) -> DataFrame:
    """Return the current rows of all rows that a stream has written: the newest one of each key.

    If no row replaces another, these are all rows.
    """
    if query not in _NEWEST:
        return rows
    keys, greatest = _NEWEST[query]
    last = rows.groupBy(*keys.split(", ")).agg(F.max_by(F.struct(*rows.columns), F.expr(greatest)).alias("last"))
    return last.select("last.*")


def digest(rows: DataFrame) -> tuple[int, int]:
    """Return the number of rows, and the sum of their hashes, which does not depend on the order."""
    found = rows.select(F.count("*"), F.sum(F.xxhash64(*rows.columns).cast("decimal(38,0)"))).first()
    assert found is not None
    return found[0], int(found[1] or 0)
