"""Passes rows to Python whatever their column names are, because PySpark looks up columns by unquoted names there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame

from flykka.actors.machines.state.schema_evolution import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as AnyDataFrame


def exactly_named(rows: AnyDataFrame) -> AnyDataFrame:
    """Return rows whose columns mapInArrow, mapInPandas and groupBy(...).cogroup(...) look up by exact name."""
    return _ExactlyNamed(rows._jdf, rows.sparkSession)


class _ExactlyNamed(DataFrame):
    def __getitem__(self, item: Any) -> Any:
        return super().__getitem__(quoted(item))
