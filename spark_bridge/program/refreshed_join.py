"""Joins with a table whose rows are cached for a while and then read again (Flink's lookup join with a FULL cache).

The cached rows are in Spark's blocks on the executors. A batch uses the cache as of its arrival, even if the table is
read again in the meantime. So it sees one version of the table, even if Spark computes the batch twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.expressions import elements
from flykka.spark_bridge.program.functions import join
from flykka.spark_bridge.program.prototype import transformed
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.program.functions import JoinOn

_FILES = "HadoopFsRelation"


class CachedTable:
    """The cached rows of a table, for all subtasks of a join."""

    def __init__(self, table: DataFrame, refresh_ms: int, now: Callable[[], float] = time.monotonic) -> None:
        self.table = table
        self._refresh_ms = refresh_ms
        self._now = now
        self._lock = Lock()
        self._cached: tuple[float, DataFrame] | None = None

    def rows(self) -> DataFrame:
        """Return the cached rows. If the cache is too old, the table is read again; errors of reading are raised."""
        with self._lock:
            now = self._now()
            if self._cached is None or now - self._cached[0] >= self._refresh_ms / 1000:
                # Spark frees the blocks of rows to which no batch refers any more.
                self._cached = now, read_again(self.table).localCheckpoint(eager=True)
            return self._cached[1]

    def forget(self) -> None:
        """Drop the cache, because its blocks may be lost."""
        with self._lock:
            self._cached = None


class JoinRefreshed(RichFunction):
    """Joins batches with a table, which each attempt of a subtask reads when it starts."""

    def __init__(self, cached: CachedTable, on: JoinOn | None, how: str, prototype: DataFrame) -> None:
        """`prototype` determines the columns. Raises `PrototypeError` if they do not fit."""
        self._table = cached
        self._on = on
        self._how = how
        self.schema = transformed(prototype, lambda rows: join(rows, cached.table, on, how)).schema

    def open(self, context: RuntimeContext) -> None:
        self._table.forget()

    def __call__(self, rows: DataFrame) -> DataFrame:
        return join(rows, self._table.rows(), self._on, self._how)


def read_again(table: DataFrame) -> DataFrame:
    """Return a table's current rows. A DataFrame of files lists the files when it is created, so it is created
    again.
    """
    for leaf in elements(table._jdf.queryExecution().analyzed().collectLeaves()):
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == _FILES:
                relation.location().refresh()
    # A new DataFrame, because the existing plan has cached its file list too.
    return table.select("*")
