"""Finds keys among others by their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Rows


def key_numbers(known: pa.Table, keys: pa.Table) -> Rows:
    """For each of the keys the row that it has in `known`, -1 where it has none.

    The two tables have the same columns, and no key is twice in `known`. Null is a key like any other, NaN too.
    """
    if keys.num_rows <= known.num_rows and keys.equals(known.slice(0, keys.num_rows)):
        return np.arange(keys.num_rows)
    pairs = zip(known.columns, keys.columns, strict=True)
    both = [pa.chunked_array([*ours.chunks, *theirs.chunks], ours.type) for ours, theirs in pairs]
    codes = numbers_of_rows(pa.Table.from_arrays(both, names=known.column_names))
    rows = np.full(codes.max(initial=-1) + 1, -1)
    rows[codes[: known.num_rows]] = np.arange(known.num_rows)
    return rows[codes[known.num_rows :]]


def numbers_of_rows(table: pa.Table) -> Rows:
    """A number for each row, from 0 on, the same for rows that are alike."""
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        values = _codes(column)
        # Made dense with each column, so that the next one cannot overflow them.
        _, numbers = np.unique(numbers * (values.max(initial=0) + 1) + values, return_inverse=True)
    return numbers


def _codes(values: pa.ChunkedArray) -> Rows:
    """A number for each value, the same for equal ones."""
    if pa.types.is_nested(values.type):
        values = pa.chunked_array([[repr(value) for value in values.to_pylist()]], pa.string())
    encoded = pc.dictionary_encode(values.combine_chunks(), null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
