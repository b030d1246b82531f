"""Prototypes: empty DataFrames with the schema of a stream, on which a user's code is tried where it is written.

Spark analyses a plan as it is built, so a column that is not there, a type that does not fit or a function that gives
no DataFrame is found without running anything.
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
from flykka.spark_bridge.program.aggregates import PartialAggregates, RowsApplied, analyze, kept_whole
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.type_support import Use, unsupported_type, without_lengths
from flykka.spark_bridge.worker.parts import PartFunction


class PrototypeError(ValueError):
    """The code does not fit the stream's columns; the text is Spark's, without its plan and stack.

    It is raised from None: hundreds of lines of Spark's own would stand before the one that matters.
    """


def transformed(prototype: DataFrame, function: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Apply `function` to the prototype.

    What the function raises by itself is passed on as it is: its traceback points at the user's line.

    Raises:
        PrototypeError: Spark refuses a column, or what comes back is no DataFrame.
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
    """The names and types of keys.

    Raises:
        PrototypeError: a key does not fit the columns, or is of a type that no row is found by.
    """
    keyed = transformed(prototype, lambda rows: rows.select(*keys))
    check_types(keyed.schema, Use.KEY)
    if keys:
        transformed(keyed, lambda rows: rows.select(F.hash("*")))
    return keyed.schema


def check_types(columns: StructType, use: Use) -> None:
    if wrong := unsupported_type(columns, use):
        raise PrototypeError(wrong)


def for_python(rows: DataFrame) -> DataFrame:
    """Rows that are given to Python. Raises `PrototypeError` where it has no such values."""
    named = exactly_named(rows)
    check_types(named.schema, Use.PYTHON)
    return named


def emitted_columns(columns: str | StructType) -> StructType:
    """The declared columns of rows that Python emits. Raises `PrototypeError` where there can be none such."""
    read = declared_columns(columns)
    check_types(read, Use.PYTHON)
    return read


def declared_columns(columns: str | StructType, what: str = "the declared columns") -> StructType:
    """Columns that are written as DDL, or as Spark's type; texts with a length are strings.

    Raises `PrototypeError`, which says `what` they are, where they cannot be read.
    """
    try:
        read = columns if isinstance(columns, StructType) else _parse_datatype_string(columns)
    except (PySparkException, TypeError, AttributeError) as refused:
        text = " ".join(str(refused).split())
        raise PrototypeError(f"{what}, {columns!r}, cannot be read: {text}") from None
    if not isinstance(read, StructType) or not read.fields:
        raise PrototypeError(f"{what}, {columns!r}, are none: write them as 'id bigint, name string'")
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
    """The function that `make` has for rows like the prototype, and what it makes of it.

    `uid`, `name` and `resources` are for a rich function, which is opened for it. With `per_batch` what it
    makes of a row may depend on the others of its batch.

    Raises:
        PrototypeError: as `transformed` does, or `make` has found something else that does not fit, or what is made of
            a row depends on others.
    """
    try:
        function = make(prototype)
    except PySparkException as refused:
        raise PrototypeError(_text(refused)) from None
    if isinstance(function, RichFunction):
        made = _made_by(function, prototype, uid=uid, name=name, resources=resources)
    else:
        made = transformed(prototype, function)
    if not per_batch:
        _check_row_by_row(prototype, made)
    return function, made


def _made_by(
    function: RichFunction, prototype: DataFrame, *, uid: str, name: str, resources: JobResources
) -> DataFrame:
    """Return the columns that a rich function declares, or else those that a copy of it makes of the prototype."""
    if function.schema is not None:
        try:
            return prototype.sparkSession.createDataFrame([], function.schema)
        except PySparkException as refused:
            raise PrototypeError(f"the declared schema cannot be read: {_text(refused)}") from None
    tried = copy(function)
    try:
        initialize_state(tried, OperatorStates())
        session = prototype.sparkSession
        tried.open(RuntimeContext(uid=uid, task_name=name, session=session, _resources=resources))
        made = transformed(prototype, tried)
    except BaseException as raised:
        try:
            tried.close()
        except Exception as also:  # noqa: BLE001 - it is told with the failure that was first
            raised.add_note(f"flykka: and then its close() raised {type(also).__name__}: {also}")
        raise
    tried.close()
    return made


def windowed(prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]) -> DataFrame:
    """The prototype of a windowed aggregation: `window_start`, `window_end`, the keys, the aggregates.

    Raises:
        PrototypeError: a key or an aggregate does not fit, is no aggregate, or two columns have one name.
    """
    bounds = (F.lit(None).cast(TimestampType()).alias(name) for name in (WINDOW_START, WINDOW_END))
    return transformed(prototype, lambda rows: rows.groupBy(*bounds, *keys).agg(*aggregates))


def window_function(
    prototype: DataFrame, keys: Sequence[Column | str], function: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, RowsApplied]:
    """The prototype of what a function makes of rows with their windows' bounds, and how the rows are kept.

    Raises:
        PrototypeError: as `applied_to_windows`.
    """
    given = prototype.sparkSession.createDataFrame([], with_bounds(prototype))
    return applied_to_windows(prototype, keys, given, function), kept_whole(prototype, keys, function)


def applied_to_windows(
    prototype: DataFrame, keys: Sequence[Column | str], given: DataFrame, function: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """The prototype of what a function makes of the `given` rows, those of a prototype with their windows' bounds.

    Raises:
        PrototypeError: the function does not fit the rows, keeps something from one call to the next, or computes
            something of rows of several windows or keys together.
    """
    if isinstance(function, RichFunction):
        raise PrototypeError(
            "a RichFunction is opened once for all the batches of a stream, and windows call a function when they"
            " fire: give a function of DataFrames"
        )
    made = transformed(given, function)
    keyed = prototype.select(*keys, *map(quoted, prototype.columns))
    if found := across_windows(given, made, key_columns(keyed, len(keys))):
        raise PrototypeError(f"this {found}")
    return made


def with_bounds(rows: DataFrame) -> StructType:
    """The bounds of windows, and the columns of rows behind them that are called otherwise."""
    bounds = [StructField(name, TimestampType()) for name in (WINDOW_START, WINDOW_END)]
    return StructType([*bounds, *(each for each in rows.schema if each.name not in (WINDOW_START, WINDOW_END))])


def running(
    prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]
) -> tuple[DataFrame, PartialAggregates]:
    """The prototype of running aggregates, the keys and the aggregates, and how they are kept.

    Raises:
        PrototypeError: a key or an aggregate does not fit, is no aggregate or cannot be kept in parts, or two columns
            have one name.
    """
    keyed = key_schema(prototype, keys).names
    aggregated = transformed(prototype, lambda rows: rows.agg(*aggregates)).columns
    case_matters = prototype.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    taken: set[str] = set()
    for name in (*keyed, *aggregated):
        if (spelled := name if case_matters else name.lower()) in taken:
            raise PrototypeError(f"two columns of the result are called {name!r}: give one of them another name")
        taken.add(spelled)
    result = transformed(prototype, lambda rows: rows.groupBy(*keys).agg(*aggregates))
    plan = analyze(prototype, keys, aggregates)
    if not isinstance(plan, PartialAggregates):
        raise PrototypeError(
            "running aggregates are put together from parts, which works for count, sum, min, max and avg without"
            " distinct or filter, and not for texts with a collation: for others use windows,"
            " key_by(...).window(...).aggregate(...)"
        )
    extremes = [each for each in plan.parts if each.function is not PartFunction.SUM]
    check_types(StructType([StructField(each.label, each.data_type) for each in extremes]), Use.ORDER)
    return result, plan


def event_time_column(prototype: DataFrame, name: str) -> str:
    """The event-time column of this name. As in Spark case does not matter, unless two columns differ in nothing else.

    Raises:
        PrototypeError: it is not there, or no timestamp with a time zone, Spark's TIMESTAMP.
    """
    alike = [each for each in prototype.columns if each.lower() == name.lower()]
    if name not in alike and len(alike) != 1:
        raise PrototypeError(f"there is no event-time column {name!r}; the columns are {', '.join(prototype.columns)}")
    column = name if name in alike else alike[0]
    found = prototype.schema[column].dataType
    if not isinstance(found, TimestampType):
        hint = ": a file that was written without a time zone can be read as timestamp where its schema is declared"
        raise PrototypeError(
            f"the event-time column {column!r} is of type {found.simpleString()}, not timestamp"
            + (hint if isinstance(found, TimestampNTZType) else "")
        )
    return column


def check_condition(prototype: DataFrame, condition: Column | str | None) -> None:
    """Raise `PrototypeError` where there is a condition and it is none of these rows."""
    if condition is not None:
        transformed(prototype, lambda rows: rows.where(condition))


def row_type(prototype: DataFrame) -> str:
    """The type of a row, a struct as Spark's DDL writes it."""
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


def _check_row_by_row(prototype: DataFrame, made: DataFrame) -> None:
    if found := across_rows(prototype, made):
        advice = next((each.instead for each in found if each is not SORTS), SORTS.instead)
        raise PrototypeError(
            f"this {' and '.join(each.does for each in found)}, which holds for one batch only, and where a batch ends"
            f" depends on how the input comes in; {advice}; transform(..., per_batch=True) says that each batch by"
            " itself is meant"
        )


def _check_names(rows: DataFrame) -> None:
    case_matters = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    seen: set[str] = set()
    for column in rows.columns:
        name = column if case_matters else column.lower()
        if name in seen:
            raise PrototypeError(f"two columns are called {column!r}; give one of them another name with .alias(...)")
        seen.add(name)


def _text(refused: PySparkException) -> str:
    """Spark's message, with the line of the user's function in which it was raised."""
    said, line = refused.getMessage() or str(refused), line_of(refused)
    return said if line is None else f"{said}\n{line}"
