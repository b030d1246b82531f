"""Converts tables to the form of users' functions, Arrow tables or pandas frames, and back.

In a frame, integers and booleans have pandas' nullable types, and lists, maps and structs have Arrow's. So a null does
not turn integers into floats, and a column has the same type in every batch. Times are in UTC. In results, NaN becomes
null, as in all conversions from pandas to Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.functions.error_texts import short_repr
from flykka.spark_bridge.worker.time_columns import as_held

if TYPE_CHECKING:
    import pandas as pd

_EXACT_IN_FLOATS = 2**53
_NAME = ("__name__",)
"""The attribute that wrappers copy from the user's function, since Spark's errors identify the operator by it."""
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def frame_of(table: pa.Table) -> pd.DataFrame:
    import pandas as pd

    nullable = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }

    def in_pandas(data_type: pa.DataType) -> Any:
        return pd.ArrowDtype(data_type) if pa.types.is_nested(data_type) else nullable.get(data_type)

    frame: pd.DataFrame = as_held(table).to_pandas(types_mapper=in_pandas)
    return frame


def table_from(returned: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Convert a function's result to a table with the columns of a schema. None becomes an empty table.

    Raises `FunctionOutputError` if the result is not a table, or has other columns.
    """
    if returned is None:
        return schema.empty_table()
    if isinstance(returned, pa.RecordBatch):
        returned = pa.Table.from_batches([returned])
    is_frame = not isinstance(returned, pa.Table)
    if is_frame and not (hasattr(returned, "to_records") and hasattr(returned, "columns")):
        raise FunctionOutputError(
            f"the function must return its {what} as a pyarrow.Table, a pandas.DataFrame or None, not"
            f" {short_repr(returned)}"
        )
    names = list(returned.columns) if is_frame else returned.column_names
    if not names and not len(returned):
        return schema.empty_table()
    if is_frame and len(names) == len(schema) and not any(isinstance(name, str) for name in names):
        # As in Spark, columns without names are matched by position.
        returned, names = returned.set_axis(schema.names, axis=1), schema.names
    _check_names(names, schema.names, what)
    columns = [_fitting(returned[each.name], each, what) for each in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _fitting(returned: Any, field: pa.Field, what: str) -> pa.Array | pa.ChunkedArray:
    type_text = f"{returned.dtype if hasattr(returned, 'dtype') else returned.type}"
    try:
        if not isinstance(returned, pa.ChunkedArray):
            # Python values do not reveal whether they represent structs or maps.
            is_untyped = pa.types.is_nested(field.type) and returned.dtype == object
            returned = pa.array(returned, field.type if is_untyped else None, from_pandas=True)
            type_text = f"{returned.type}"
        _check_exact(returned, field)
        return returned if returned.type.equals(field.type) else returned.cast(field.type)
    except _MISFITS as wrong:
        raise FunctionOutputError(
            f"the {what} that the function returned has the column {field.name!r} of type {type_text}, which must be"
            f" of type {field.type}: {wrong}"
        ) from None


def _check_exact(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> None:
    """Raise `ValueError` if floats for an integer column are so large that they may have been rounded."""
    if pa.types.is_floating(column.type) and pa.types.is_integer(field.type):
        largest = pc.max(pc.abs(column)).as_py()
        if largest is not None and largest >= _EXACT_IN_FLOATS:
            raise ValueError(
                f"{largest:.0f} as a float may have been another number: let the column be of type 'Int64'"
            )


def _check_names(names: Sequence[Any], declared: Sequence[str], what: str) -> None:
    missing = ", ".join(name for name in declared if name not in names)
    unknown = ", ".join(str(name) for name in names if name not in declared)
    twice = ", ".join(sorted({str(name) for name in names if names.count(name) > 1}))
    problems = {"missing": missing, "not declared": unknown, "there twice": twice}
    if wrong := "; ".join(f"{text}: {columns}" for text, columns in problems.items() if columns):
        raise FunctionOutputError(f"the {what} that the function returned has the wrong columns ({wrong})")


def mapping_frames(
    function: Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]], emitted: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Adapt a function on pandas DataFrames to Spark's `mapInArrow`."""

    @wraps(function, assigned=_NAME, updated=())
    def called(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for returned in function(frame_of(pa.Table.from_batches([batch])) for batch in batches):
            yield from table_from(returned, emitted, "output").to_batches()

    return called


def grouping_frames(
    function: Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame], emitted: pa.Schema
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Adapt a function on two pandas DataFrames to Spark's cogrouped `applyInArrow`."""

    @wraps(function, assigned=_NAME, updated=())
    def called(left: pa.Table, right: pa.Table) -> pa.Table:
        return table_from(function(frame_of(left), frame_of(right)), emitted, "output")

    return called
