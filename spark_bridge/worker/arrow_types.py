"""Rows and columns as Python has them: Arrow's, with times in UTC, and with nulls wherever Spark may put one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema

from flykka.spark_bridge.rows.nullable import nullable
from flykka.spark_bridge.worker.time_columns import held_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def arrow_schema(columns: StructType) -> pa.Schema:
    return held_schema(to_arrow_schema(columns, timezone="UTC"))


def collected_table(rows: DataFrame) -> pa.Table:
    return rows.to(nullable(rows.schema)).toArrow()
