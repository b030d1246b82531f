"""Tables as users' functions have them: Arrow's, or frames of pandas.

In a frame whole numbers and booleans are of pandas' nullable types: a null among them does not make floats of them, and
a column has one type in every batch. On the way back NaN is null, as everywhere between pandas and Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.functions.shown import shown

if TYPE_CHECKING:
    import pandas as pd


def frame_of(table: pa.Table) -> pd.DataFrame:
    """A table as a frame."""
    import pandas as pd

    nullable = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    return frame


def table_from(returned: Any, what: str) -> pa.Table | None:
    """A table that a function has returned, in whichever form. Raises `FunctionOutputError` where it is none."""
    if returned is None or isinstance(returned, pa.Table):
        return returned
    if isinstance(returned, pa.RecordBatch):
        return pa.Table.from_batches([returned])
    if hasattr(returned, "to_records") and hasattr(returned, "columns"):
        try:
            return pa.Table.from_pandas(returned, preserve_index=False)
        except (pa.ArrowException, TypeError) as wrong:
            raise FunctionOutputError(f"the {what} that the function has returned is no table: {wrong}") from None
    raise FunctionOutputError(
        f"the function has to return its {what} as a pyarrow.Table, a pandas.DataFrame or None, not {shown(returned)}"
    )
