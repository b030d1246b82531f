"""Text that Spark parses, and finds corrupt: it ends the read with the place where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_SHOWN = 200


def refused_if_corrupt(parsed: Column, corrupt: Column, subject: Column, name: str) -> Column:
    """`parsed`, or an error where `corrupt` has the text: "`subject` is no `name` of the declared columns: ..."."""
    text = F.substring(corrupt, 1, _SHOWN)
    told = F.concat(subject, F.lit(f" is no {name} of the declared columns: "), text)
    return F.when(corrupt.isNotNull(), F.raise_error(told)).otherwise(parsed)
