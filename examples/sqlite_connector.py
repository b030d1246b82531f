"""A custom connector: a source that reads a growing SQLite table, and a sink that writes one exactly once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flykka import connectors


@dataclass(frozen=True)
class SqliteSource(connectors.Source):
    """Reads the rows of a table in insertion order, and looks for new rows every second."""

    path: str
    table: str
    columns: str
    event_time: str | None = None
    format = "sqlite"
    boundedness = connectors.Boundedness.CONTINUOUS_UNBOUNDED
    parallelism_limit = 1

    def prototype(self, session: SparkSession) -> DataFrame:
        """Return an empty DataFrame with the declared columns."""
        return session.createDataFrame([], self.columns)

    def split_discovery(
        self, operator_id: connectors.OperatorId, filesystem: connectors.FileSystem
    ) -> connectors.SplitDiscovery:
        """Return the discovery of new rows, which runs in the driver."""
        return NewRows(self, operator_id)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[connectors.SourceSplit], *, in_slices: bool
    ) -> tuple[DataFrame, ...]:
        """Return DataFrames that read ranges of row numbers in one of Spark's workers, whenever they are computed."""
        ranges = [json.loads(split.content) for split in splits if isinstance(split, connectors.SerializedSplit)]
        where = f"rowid > {ranges[0][0]} AND rowid <= {ranges[-1][1]}"
        query = f"SELECT {', '.join(schema.names)} FROM {self.table} WHERE {where}"

        def rows(_: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            with closing(sqlite3.connect(self.path)) as database:
                yield pd.read_sql(query, database)

        return (session.range(0, 1, 1, 1).mapInPandas(rows, schema),)


class NewRows(connectors.SplitDiscovery):
    """Finds the rows after a position, which is the number of the last known row."""

    interval_ms = 1000
    changed = None

    def __init__(self, source: SqliteSource, operator_id: connectors.OperatorId) -> None:
        self.source, self.operator_id = source, operator_id

    def discover(self, position: bytes) -> connectors.SplitsDiscovered:
        """Return one split with all new rows."""
        first = int(position or b"0")
        with closing(sqlite3.connect(self.source.path)) as database:
            (last,) = database.execute(f"SELECT coalesce(max(rowid), 0) FROM {self.source.table}").fetchone()
        split = connectors.SerializedSplit(
            split_id=connectors.SplitId(f"{first}-{last}"), rows=last - first, content=json.dumps([first, last])
        )
        found = (split,) if last > first else ()
        return connectors.SplitsDiscovered(
            operator_id=self.operator_id, splits=found, finished=False, begun_at=position, position=b"%d" % last
        )


@dataclass(frozen=True)
class SqliteSink(connectors.TransactionalSink):
    """Writes the rows of each checkpoint once, by storing the checkpoint id in the same transaction."""

    path: str
    table: str
    format = "sqlite"

    def publish(self, transaction: connectors.Transaction) -> None:
        """Insert the rows and store the checkpoint id, unless it is stored already."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database, database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("CREATE TABLE IF NOT EXISTS published (writer TEXT PRIMARY KEY, checkpoint_id INTEGER)")
            known = "SELECT 1 FROM published WHERE writer = ? AND checkpoint_id >= ?"
            if database.execute(known, [transaction.writer, transaction.checkpoint_id]).fetchone() is None:
                rows = transaction.rows
                values = ", ".join("?" * len(rows.columns))
                database.executemany(f"INSERT INTO {self.table} VALUES ({values})", rows.toLocalIterator())
                noted = [transaction.writer, transaction.checkpoint_id]
                database.execute("INSERT OR REPLACE INTO published VALUES (?, ?)", noted)
