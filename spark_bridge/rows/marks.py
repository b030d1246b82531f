"""Columns in which a source marks rows for its reader, for example corrupt rows. Users never see these columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTITION = "__partition"
"""The index of a row's partition among the source's partitions, each of which has a watermark."""

IS_CORRUPT = "__is_corrupt"
"""True in rows that could not be parsed. These are counted and dropped."""


def without_marks(rows: DataFrame) -> DataFrame:
    """Return the rows as users see them: without the marks and without corrupt rows."""
    good = rows.where(f"NOT {IS_CORRUPT}") if IS_CORRUPT in rows.columns else rows
    return good.drop(IS_CORRUPT, PARTITION)


_SHOWN = 200


def refused_if_corrupt(parsed: Column, corrupt: Column, subject: Column, name: str) -> Column:
    """Return `parsed`, or raise if `corrupt` has text: "`subject` is not `name` of the declared columns: ..."."""
    text = F.substring(corrupt, 1, _SHOWN)
    message = F.concat(subject, F.lit(f" is not {name} of the declared columns: "), text)
    return F.when(corrupt.isNotNull(), F.raise_error(message)).otherwise(parsed)
