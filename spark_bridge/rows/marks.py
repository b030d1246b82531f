"""Columns with which a source marks rows for its reader: they go no further, and users never see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION = "__partition"
"""The place of a row's partition among those of the source, which have watermarks of their own."""

IS_CORRUPT = "__is_corrupt"
"""True in rows that could not be read as they should: they are counted and left out."""


def without_marks(rows: DataFrame) -> DataFrame:
    """The rows as users see them: without the marks, and without corrupt ones."""
    good = rows.where(f"NOT {IS_CORRUPT}") if IS_CORRUPT in rows.columns else rows
    return good.drop(IS_CORRUPT, PARTITION)
