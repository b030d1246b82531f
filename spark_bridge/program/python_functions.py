"""The verbs of a stream that call a plain Python function for every row, as functions of the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.program.prototype import emitted_columns, for_python
from flykka.spark_bridge.worker.row_functions import FilterRows, FlatMapRows, MapRows
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def map_rows(rows: DataFrame, function: Callable[[Row], Row], output: StructType | str) -> DataFrame:
    """Make one row of each by a Python function. Raises `PrototypeError` where `output` is no columns."""
    schema = emitted_columns(output)
    return for_python(rows).mapInArrow(MapRows(function=function, emitted=arrow_schema(schema)), schema)


def flat_map_rows(
    rows: DataFrame, function: Callable[[Row], Iterable[Row] | None], output: StructType | str
) -> DataFrame:
    """Make rows of each by a Python function. Raises `PrototypeError` where `output` is no columns."""
    schema = emitted_columns(output)
    return for_python(rows).mapInArrow(FlatMapRows(function=function, emitted=arrow_schema(schema)), schema)


def filter_rows(rows: DataFrame, function: Callable[[Row], object]) -> DataFrame:
    return for_python(rows).mapInArrow(FilterRows(function=function), rows.schema)
