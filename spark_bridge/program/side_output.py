"""A side output in the code of an operator."""

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
        """The worker's column, in which a row of the side output is a struct."""
        return StructField(self.column, self.columns)
