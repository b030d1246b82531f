"""Rows between Arrow's columns and Python's dicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.shown import shown

_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def dicts(rows: pa.Table | pa.RecordBatch, names: Sequence[str] | None = None) -> list[Row]:
    """Rows as dicts, with these columns or all of them."""
    chosen = rows.schema.names if names is None else names
    columns = [rows.column(name).to_pylist() for name in chosen]
    return [dict(zip(chosen, values, strict=True)) for values in zip(*columns, strict=True)]


def table_of(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Rows that a function has emitted. Raises `FunctionOutputError` for a value that is not of its column's type."""
    listed = list(rows)
    return pa.Table.from_arrays([_column(listed, each) for each in schema], schema=schema)


def _column(rows: Sequence[Row], of: pa.Field) -> pa.Array:
    try:
        return pa.array([row[of.name] for row in rows], of.type)
    except _MISFITS as wrong:
        culprit = next((row for row in rows if not _fits(row[of.name], of.type)), None)
        if culprit is None:
            raise
        raise FunctionOutputError(
            f"the function has emitted {shown(culprit)}, and its output {of.name!r} is of type {of.type}: {wrong}"
        ) from None


def _fits(value: Any, data_type: pa.DataType) -> bool:
    try:
        pa.array([value], data_type)
    except _MISFITS:
        return False
    return True
