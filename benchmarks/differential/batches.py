"""The results of Spark batches, with which those of streams are compared."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

import flykka
from benchmarks.differential import functions
from benchmarks.differential.cases import Case, Outcome, differs
from benchmarks.differential.queries import STATIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from benchmarks.differential.tables import Table


class Batches:
    """The results of batches, each computed once, however often its program runs as a stream."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        static = spark.createDataFrame([(0, "zero"), (1, "one"), (1, "uno"), (None, "none")], "sg int, v string")
        static.createOrReplaceTempView(STATIC)
        self.names: dict[str, Any] = {name: getattr(flykka, name) for name in flykka.__all__} | vars(functions)
        self.names |= {STATIC: static, "spark": spark, "F": F}
        self._results: dict[int, tuple[Case, Result | Outcome]] = {}
        self._tables: tuple[Table, ...] = ()
        self._frames: dict[str, DataFrame] = {}

    def result(self, case: Case) -> Result | Outcome:
        if id(case) not in self._results:
            self._results[id(case)] = case, self._computed(case)
        return self._results[id(case)][1]

    def forget(self) -> None:
        self._results.clear()

    def _computed(self, case: Case) -> Result | Outcome:
        try:
            truth = eval(case.truth, {**self.names, **self._frames_read(case)})
            return Result(truth.schema, rows_of(truth.toArrow()))
        except Exception as wrong:  # noqa: BLE001 - Spark's own faults are not PySparkExceptions.
            return differs("the stream runs, the batch fails", wrong)

    def _frames_read(self, case: Case) -> dict[str, DataFrame]:
        """Register the tables that the batch reads as views, and return them; those of the last case are reused."""
        if self._tables is not case.tables:
            self._tables, self._frames = case.tables, {}
        for name in {*re.findall(r"\w+", case.truth)} - {*self._frames}:
            for table in case.tables:
                if name == table.name:
                    rows = pa.Table.from_pylist(table.final_rows(), table.own_schema)
                elif name == f"{table.name}_log":
                    more = pa.field("place", pa.int64()), pa.field("is_deletion", pa.bool_())
                    rows = pa.Table.from_pylist(table.log(), pa.schema([*table.own_schema, *more]))
                else:
                    continue
                self._frames[name] = self.spark.createDataFrame(rows)
                self._frames[name].createOrReplaceTempView(name)
        return self._frames


@dataclass(frozen=True)
class Result:
    schema: StructType
    rows: Counter[tuple[Any, ...]]


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Count the rows, with times and days as numbers, and with all NaNs and both zeros as equal."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        elif pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        columns.append([_plain(value) for value in column.to_pylist()])
    return Counter(zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
