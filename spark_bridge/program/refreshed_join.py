"""Joins with a table whose rows are kept for a while, and then read again (Flink's lookup join with a FULL cache).

What was read lies in Spark's blocks on the executors. A batch works with what is kept when it comes, whatever is read
meanwhile: so it has one version of the table, also where Spark computes it twice.
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


class KeptTable:
    """The rows of a table as they were read, for all subtasks of a join."""

    def __init__(self, table: DataFrame, refresh_ms: int, now: Callable[[], float] = time.monotonic) -> None:
        """`now` tells the time in seconds."""
        self.table = table
        self._refresh_ms = refresh_ms
        self._now = now
        self._lock = Lock()
        self._kept: tuple[float, DataFrame] | None = None

    def rows(self) -> DataFrame:
        """The rows, read now or kept since they were. Raises what reading them raises."""
        with self._lock:
            now = self._now()
            if self._kept is None or now - self._kept[0] >= self._refresh_ms / 1000:
                # Spark frees the blocks of rows that no batch refers to any more.
                self._kept = now, read_again(self.table).localCheckpoint(eager=True)
            return self._kept[1]

    def forget(self) -> None:
        """Read the rows again when they are wanted: what they lie in may be lost."""
        with self._lock:
            self._kept = None


class JoinRefreshed(RichFunction):
    """Joins batches with a table. Each attempt of a subtask begins by reading it again."""

    def __init__(self, kept: KeptTable, on: JoinOn | None, how: str, prototype: DataFrame) -> None:
        """Learn the columns from rows like `prototype`. Raises `PrototypeError` where they do not fit."""
        self._table = kept
        self._on = on
        self._how = how
        self.schema = transformed(prototype, lambda rows: join(rows, kept.table, on, how)).schema

    def open(self, context: RuntimeContext) -> None:
        self._table.forget()

    def __call__(self, rows: DataFrame) -> DataFrame:
        return join(rows, self._table.rows(), self._on, self._how)


def read_again(table: DataFrame) -> DataFrame:
    """The rows that a table has now: a DataFrame of files knows which there were when it was made, and is told."""
    for leaf in elements(table._jdf.queryExecution().analyzed().collectLeaves()):
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == _FILES:
                relation.location().refresh()
    # The plan that was made of the DataFrame before has noted its files too.
    return table.select("*")
