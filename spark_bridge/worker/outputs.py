"""The output of Python workers: rows of several outputs as one stream of batches, or the number of written rows.

A row of the stream is null in the columns of all other outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa


def emitted_batches(main: pa.Table, others: Mapping[str, pa.Array]) -> list[pa.RecordBatch]:
    """Return the rows of the main output, then the rows of other outputs, each in the column named after its output."""
    schema = pa.schema([*main.schema, *((name, rows.type) for name, rows in others.items())])
    outputs = [
        dict(zip(main.column_names, main.columns, strict=True)),
        *({name: rows} for name, rows in others.items()),
    ]
    return [batch for columns in outputs for batch in _only(schema, columns)]


def _only(schema: pa.Schema, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[pa.RecordBatch]:
    rows = len(next(iter(columns.values())))
    arrays = [columns[each.name] if each.name in columns else pa.nulls(rows, each.type) for each in schema]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, schema=schema).to_batches()
    return batches


ROWS = "rows bigint"
"""The column that reports the number of written rows, as DDL."""


def number_of(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})
