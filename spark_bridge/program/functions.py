"""The operations of a stream, as functions on the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.program.prototype import emitted_columns, for_python
from flykka.spark_bridge.rows.prepared import of_columns
from flykka.spark_bridge.worker.frames import mapping_frames
from flykka.spark_bridge.worker.row_functions import FilterRows, FlatMapRows, MapRows
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pandas import DataFrame as PandasDataFrame
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    PandasFunction = Callable[[Iterator[PandasDataFrame]], Iterator[PandasDataFrame]]
    ArrowFunction = Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]
    JoinOn = str | Column | list[str] | list[Column]


KEY_OF_ALL = "__all"
"""The name of the single key of unkeyed rows."""


@of_columns
def select(rows: DataFrame, columns: tuple[Column | str, ...]) -> DataFrame:
    return rows.select(*columns)


@of_columns
def select_expr(rows: DataFrame, expressions: tuple[str, ...]) -> DataFrame:
    return rows.selectExpr(*expressions)


@of_columns
def where(rows: DataFrame, condition: Column | str) -> DataFrame:
    return rows.where(condition)


@of_columns
def where_not(rows: DataFrame, condition: Column | str) -> DataFrame:
    column = F.expr(condition) if isinstance(condition, str) else condition
    return rows.where(~F.coalesce(column, F.lit(False)))


@of_columns
def with_columns(rows: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    return rows.withColumns(dict(columns))


@of_columns
def with_column_renamed(rows: DataFrame, existing: str, new: str) -> DataFrame:
    return rows.withColumnRenamed(existing, new)


@of_columns
def drop(rows: DataFrame, columns: tuple[Column | str, ...]) -> DataFrame:
    return rows.drop(*columns)


def map_in_pandas(rows: DataFrame, function: PandasFunction, schema: StructType | str) -> DataFrame:
    declared = emitted_columns(schema)
    return for_python(rows).mapInArrow(mapping_frames(function, arrow_schema(declared)), declared)


def map_in_arrow(rows: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    return for_python(rows).mapInArrow(function, emitted_columns(schema))


def join(rows: DataFrame, static: DataFrame, on: JoinOn | None, how: str) -> DataFrame:
    return rows.join(static, on=on, how=how)


def counted_rows(name: str) -> Column:
    return F.count("*").alias(name)


def aggregated_columns(
    rows: DataFrame, function: Literal["sum", "min", "max"], names: tuple[str, ...]
) -> tuple[Column, ...]:
    aggregate = {"sum": F.sum, "min": F.min, "max": F.max}[function]
    return tuple(aggregate(quoted(name) if name in rows.columns else name).alias(name) for name in names)


def only_key() -> Column:
    """Return the single key of an unkeyed stream (Flink's NullByteKeySelector)."""
    return F.lit(0).cast("tinyint").alias(KEY_OF_ALL)


def map_rows(rows: DataFrame, function: Callable[[Row], Row], output: StructType | str) -> DataFrame:
    schema = emitted_columns(output)
    return for_python(rows).mapInArrow(MapRows(function=function, emitted=arrow_schema(schema)), schema)


def flat_map_rows(
    rows: DataFrame, function: Callable[[Row], Iterable[Row] | None], output: StructType | str
) -> DataFrame:
    schema = emitted_columns(output)
    return for_python(rows).mapInArrow(FlatMapRows(function=function, emitted=arrow_schema(schema)), schema)


def filter_rows(rows: DataFrame, function: Callable[[Row], object]) -> DataFrame:
    return for_python(rows).mapInArrow(FilterRows(function=function), rows.schema)
