"""A side output of an operator."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutput:
    """A side output with readers: the id of its tag, its columns, and the column in which a worker emits its rows."""

    tag: str
    column: str
    columns: StructType

    @property
    def field(self) -> StructField:
        return StructField(self.column, self.columns)
