"""A user's function called on rows: what comes back must be rows."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from flykka.spark_bridge.errors import NotADataFrameError


def applied(function: Callable[[DataFrame], object], rows: DataFrame) -> DataFrame:
    """What `function` makes of `rows`.

    Raises:
        NotADataFrameError: it is no DataFrame.
    """
    result = function(rows)
    if isinstance(result, DataFrame):
        return result
    what = "nothing: is a `return` missing?" if result is None else f"a {type(result).__name__}"
    raise NotADataFrameError(f"the function must return a DataFrame, but returned {what}")
