"""Prototypes: empty DataFrames with the schema of a stream, used to check a user's code when the program is built.

Spark analyses a plan as it is built, so a missing column, a wrong type or a function that does not return a DataFrame
is found without running a Spark job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from pyspark.errors import PySparkException
from pyspark.sql import Column as Column
from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import SparkSession as SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_string,
)
from pyspark.sql.types import StructType as StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.diagnosis.user_lines import line_of
from flykka.spark_bridge.errors import NotADataFrameError
from flykka.spark_bridge.functions.checkpointed_function import initialize_state
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.program.across_rows import SORTS, across_rows
from flykka.spark_bridge.program.across_windows import across_windows, key_columns
from flykka.spark_bridge.program.aggregates import PartialAggregates, RowStateFunction, analyze, whole_row_state
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.type_support import Use, unsupported_type, without_lengths
from flykka.spark_bridge.worker.parts import PartFunction


class PrototypeError(ValueError):
    """The code does not fit the stream's columns. The message is Spark's, without its plan and stack trace.

    Raised `from None`, because otherwise hundreds of lines of Spark's trace would precede the line that matters.
    """


def transformed(prototype: DataFrame, function: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Apply `function` to the prototype.

    The function's own exceptions are raised unchanged, because their traceback contains the user's line.

    Raises:
        PrototypeError: Spark rejects a column, or the result is not a DataFrame.
    """
    try:
        result = applied(function, prototype)
        _check_names(result)
        check_types(result.schema, Use.STREAM)
    except NotADataFrameError as returned:
        raise PrototypeError(str(returned)) from None
    except PySparkException as refused:
        raise PrototypeError(_text(refused)) from None
    return result


def key_schema(prototype: DataFrame, keys: Sequence[Column | str]) -> StructType:
    """Return the columns of keys. Raises `PrototypeError` if a key does not fit, or if Spark cannot hash its type."""
    keyed = transformed(prototype, lambda rows: rows.select(*keys))
    check_types(keyed.schema, Use.KEY)
    if keys:
        transformed(keyed, lambda rows: rows.select(F.hash("*")))
    return keyed.schema


def check_types(columns: StructType, use: Use) -> None:
    if wrong := unsupported_type(columns, use):
        raise PrototypeError(wrong)


def for_python(rows: DataFrame) -> DataFrame:
    """Return rows for Python code. Raises `PrototypeError` if Python cannot represent a column's type."""
    renamed = exactly_named(rows)
    check_types(renamed.schema, Use.PYTHON)
    return renamed


def emitted_columns(columns: str | StructType) -> StructType:
    """Return the declared columns of rows emitted by Python. Raises `PrototypeError` if Python cannot emit a type."""
    read = declared_columns(columns)
    check_types(read, Use.PYTHON)
    return read


def declared_columns(columns: str | StructType, what: str = "the declared columns") -> StructType:
    """Parse columns given as DDL or as a Spark type. CHAR and VARCHAR become strings.

    Raises `PrototypeError`, whose message calls the columns `what`, if they cannot be parsed.
    """
    try:
        read = columns if isinstance(columns, StructType) else _parse_datatype_string(columns)
    except (PySparkException, TypeError, AttributeError) as refused:
        text = " ".join(str(refused).split())
        raise PrototypeError(f"{what}, {columns!r}, cannot be read: {text}") from None
    if not isinstance(read, StructType) or not read.fields:
        raise PrototypeError(f"{what}, {columns!r}, are not columns: write them as 'id bigint, name string'")
    check_types(read, Use.STREAM)
    return without_lengths(read)


def fitted(
    prototype: DataFrame,
    make: Callable[[DataFrame], Callable[[DataFrame], DataFrame]],
    *,
    uid: str,
    name: str,
    resources: JobResources = NO_RESOURCES,
    per_batch: bool = False,
) -> tuple[Callable[[DataFrame], DataFrame], DataFrame]:
    """Return the function that `make` builds for rows like the prototype, and the prototype of its results.

    A rich function is opened for this with `uid`, `name` and `resources`. With `per_batch`, a result may depend on
    several rows of its batch.

    Raises:
        PrototypeError: like `transformed`; or if `make` rejects the rows, or a result depends on several rows.
    """
    try:
        function = make(prototype)
    except PySparkException as refused:
        raise PrototypeError(_text(refused)) from None
    if isinstance(function, RichFunction):
        result = _result_columns(function, prototype, uid=uid, name=name, resources=resources)
    else:
        result = transformed(prototype, function)
    if not per_batch:
        _check_row_by_row(prototype, result)
    return function, result


def _result_columns(
    function: RichFunction, prototype: DataFrame, *, uid: str, name: str, resources: JobResources
) -> DataFrame:
    """Return the columns that a rich function declares, or else the columns that a copy returns for the prototype."""
    if function.schema is not None:
        try:
            return prototype.sparkSession.createDataFrame([], function.schema)
        except PySparkException as refused:
            raise PrototypeError(f"the declared schema cannot be read: {_text(refused)}") from None
    copied = copy(function)
    try:
        initialize_state(copied, OperatorStates())
        session = prototype.sparkSession
        copied.open(RuntimeContext(uid=uid, task_name=name, session=session, _resources=resources))
        result = transformed(prototype, copied)
    except BaseException as raised:
        try:
            copied.close()
        except Exception as also:  # noqa: BLE001 - reported with the first failure
            raised.add_note(f"flykka: afterwards its close() raised {type(also).__name__}: {also}")
        raise
    copied.close()
    return result


def windowed(prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]) -> DataFrame:
    """Return the prototype of a windowed aggregation: `window_start`, `window_end`, the keys, the aggregates.

    Raises `PrototypeError` if a key or an aggregate does not fit or is no aggregate, or two columns have the same name.
    """
    bounds = (F.lit(None).cast(TimestampType()).alias(name) for name in (WINDOW_START, WINDOW_END))
    return transformed(prototype, lambda rows: rows.groupBy(*bounds, *keys).agg(*aggregates))


def window_function(
    prototype: DataFrame, keys: Sequence[Column | str], function: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, RowStateFunction]:
    """Return the prototype of a window function's results, and the plan of its state. Raises like
    `applied_to_windows`.
    """
    bounded = prototype.sparkSession.createDataFrame([], with_bounds(prototype))
    return applied_to_windows(prototype, keys, bounded, function), whole_row_state(prototype, keys, function)


def applied_to_windows(
    prototype: DataFrame, keys: Sequence[Column | str], bounded: DataFrame, function: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return the prototype of a window function's results for rows with the bounds of their windows.

    Raises:
        PrototypeError: the function does not fit the rows, keeps state between calls, or combines rows of several
            windows or keys.
    """
    if isinstance(function, RichFunction):
        raise PrototypeError(
            "a RichFunction is opened once for all the batches of a stream, and windows call a function when they"
            " fire: give a function of DataFrames"
        )
    result = transformed(bounded, function)
    keyed = prototype.select(*keys, *map(quoted, prototype.columns))
    if operation := across_windows(bounded, result, key_columns(keyed, len(keys))):
        raise PrototypeError(f"this {operation}")
    return result


def with_bounds(rows: DataFrame) -> StructType:
    """Return the columns of a window's bounds, followed by the rows' columns with other names."""
    bounds = [StructField(name, TimestampType()) for name in (WINDOW_START, WINDOW_END)]
    return StructType([*bounds, *(each for each in rows.schema if each.name not in (WINDOW_START, WINDOW_END))])


def running(
    prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]
) -> tuple[DataFrame, PartialAggregates]:
    """Return the prototype of running aggregates, which has the keys and the aggregates, and the plan of their state.

    Raises:
        PrototypeError: a key or an aggregate does not fit, is no aggregate or cannot be decomposed, or two columns have
            the same name.
    """
    keyed = key_schema(prototype, keys).names
    aggregated = transformed(prototype, lambda rows: rows.agg(*aggregates)).columns
    case_matters = prototype.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    names: set[str] = set()
    for name in (*keyed, *aggregated):
        if (spelled := name if case_matters else name.lower()) in names:
            raise PrototypeError(f"two columns of the result are named {name!r}: give one of them another name")
        names.add(spelled)
    result = transformed(prototype, lambda rows: rows.groupBy(*keys).agg(*aggregates))
    plan = analyze(prototype, keys, aggregates)
    if not isinstance(plan, PartialAggregates):
        raise PrototypeError(
            "running aggregates are merged from parts, which works for count, sum, min, max and avg without distinct"
            " or filter, and not for texts with a collation: for others use windows,"
            " key_by(...).window(...).aggregate(...)"
        )
    extremes = [each for each in plan.parts if each.function is not PartFunction.SUM]
    check_types(StructType([StructField(each.label, each.data_type) for each in extremes]), Use.ORDER)
    return result, plan


def event_time_column(prototype: DataFrame, name: str) -> str:
    """Return the event-time column with this name. Case is ignored, as in Spark, unless names differ only by case.

    Raises `PrototypeError` if the column does not exist, or is not of Spark's type TIMESTAMP (with time zone).
    """
    alike = [each for each in prototype.columns if each.lower() == name.lower()]
    if name not in alike and len(alike) != 1:
        raise PrototypeError(f"there is no event-time column {name!r}; the columns are {', '.join(prototype.columns)}")
    column = name if name in alike else alike[0]
    data_type = prototype.schema[column].dataType
    if not isinstance(data_type, TimestampType):
        hint = ": a file that was written without a time zone can be read as timestamp if you declare the schema"
        raise PrototypeError(
            f"the event-time column {column!r} is of type {data_type.simpleString()}, not timestamp"
            + (hint if isinstance(data_type, TimestampNTZType) else "")
        )
    return column


def check_condition(prototype: DataFrame, condition: Column | str | None) -> None:
    if condition is not None:
        transformed(prototype, lambda rows: rows.where(condition))


def row_type(prototype: DataFrame) -> str:
    return _ddl(prototype.schema)


def _ddl(data_type: DataType) -> str:
    match data_type:
        case StructType():
            parts = (f"{quoted(each.name)}:{_ddl(each.dataType)}" for each in data_type)
            return f"struct<{','.join(parts)}>"
        case ArrayType():
            return f"array<{_ddl(data_type.elementType)}>"
        case MapType():
            return f"map<{_ddl(data_type.keyType)},{_ddl(data_type.valueType)}>"
    return data_type.simpleString()


def has_event_time(prototype: DataFrame, column: str | None) -> bool:
    return column in prototype.columns and isinstance(prototype.schema[column].dataType, TimestampType)


def _check_row_by_row(prototype: DataFrame, result: DataFrame) -> None:
    if operations := across_rows(prototype, result):
        advice = next((each.instead for each in operations if each is not SORTS), SORTS.instead)
        raise PrototypeError(
            f"this {' and '.join(each.does for each in operations)} within one batch only, and the bounds of a batch"
            f" depend on the arrival of the input; {advice}; transform(..., per_batch=True) allows it for each"
            " batch by itself"
        )


def _check_names(rows: DataFrame) -> None:
    case_matters = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    seen: set[str] = set()
    for column in rows.columns:
        name = column if case_matters else column.lower()
        if name in seen:
            raise PrototypeError(f"two columns are named {column!r}; give one of them another name with .alias(...)")
        seen.add(name)


def _text(refused: PySparkException) -> str:
    message, line = refused.getMessage() or str(refused), line_of(refused)
    return message if line is None else f"{message}\n{line}"
