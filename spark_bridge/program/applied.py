"""Calls a user's function on rows and checks that it returns a DataFrame with its declared columns, if any."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from flykka.spark_bridge.errors import DeclaredSchemaError, NotADataFrameError
from flykka.spark_bridge.program.rich_function import RichFunction
from flykka.spark_bridge.session.jvm_classes import frame_of_plan


def applied(function: Callable[[DataFrame], object], rows: DataFrame) -> DataFrame:
    """Return the result of `function` for `rows`.

    Raises:
        NotADataFrameError: the result is not a DataFrame.
        DeclaredSchemaError: its columns differ from those that a rich function declares.
    """
    result = function(rows)
    if isinstance(result, DataFrame):
        if isinstance(function, RichFunction) and function.schema is not None:
            _check_declared(result, function.schema)
        return _in_session_of(rows, result)
    what = "nothing: is a `return` missing?" if result is None else f"a {type(result).__name__}"
    raise NotADataFrameError(f"the function must return a DataFrame, but returned {what}")


def _in_session_of(rows: DataFrame, result: DataFrame) -> DataFrame:
    """Return the result in the session of the rows, which has the settings for counting them.

    `static.join(rows, ...)` belongs to the session of `static`, which may be the application's.
    """
    session = rows.sparkSession
    if result.sparkSession is session:
        return result
    return frame_of_plan(session, result._jdf.queryExecution().analyzed())


def _check_declared(result: DataFrame, schema: StructType | str) -> None:
    declared = (StructType.fromDDL(schema) if isinstance(schema, str) else schema).simpleString()
    if result.schema.simpleString() != declared:
        raise DeclaredSchemaError(f"the function declares {declared}, but returned {result.schema.simpleString()}")
