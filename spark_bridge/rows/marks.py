"""Columns with which a source marks rows for its reader, and text that it finds corrupt: users never see either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTITION = "__partition"
"""The place of a row's partition among those of the source, which have watermarks of their own."""

IS_CORRUPT = "__is_corrupt"
"""True in rows that could not be read as they should: they are counted and left out."""


def without_marks(rows: DataFrame) -> DataFrame:
    """The rows as users see them: without the marks, and without corrupt ones."""
    good = rows.where(f"NOT {IS_CORRUPT}") if IS_CORRUPT in rows.columns else rows
    return good.drop(IS_CORRUPT, PARTITION)


_SHOWN = 200


def refused_if_corrupt(parsed: Column, corrupt: Column, subject: Column, name: str) -> Column:
    """`parsed`, or an error where `corrupt` has the text: "`subject` is no `name` of the declared columns: ..."."""
    text = F.substring(corrupt, 1, _SHOWN)
    told = F.concat(subject, F.lit(f" is no {name} of the declared columns: "), text)
    return F.when(corrupt.isNotNull(), F.raise_error(told)).otherwise(parsed)
