"""Keys in columns: which rows have the same one.

Null is a key like any other, and so is NaN, as for Spark's groupBy. Two keys may share a position, which hardly ever
happens: such rows are told apart one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

KEY_PREFIX = "__key_"
"""The names of key columns: this, and the place of the key."""

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


def key_columns(table: pa.Table) -> list[str]:
    """The names of the key columns of a table, in their order."""
    return [name for name in table.column_names if name.startswith(KEY_PREFIX)]


def same_keys(left: pa.Table, right: pa.Table) -> Mask:
    """True for each row of `left` that has the keys of the same row of `right`."""
    same = np.ones(left.num_rows, dtype=np.bool_)
    for name in key_columns(left):
        same &= same_values(left.column(name), right.column(name))
    return same


def same_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """True for each value of `left` that is the same as that of `right` in its place; null and NaN are values."""
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter((one == other for one, other in pairs), np.bool_, len(left))
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if left.null_count or right.null_count:
        equal = pc.coalesce(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    return np.asarray(equal.to_numpy(), dtype=np.bool_)


def sorted_by_key(table: pa.Table, positions: Rows, order: Rows) -> tuple[pa.Table, Mask]:
    """Sort rows so that those of a key are together; with the mask of the first row of each key.

    `order` sorts them by position, and is kept among the rows of a key.
    """
    table, positions = table.take(order), positions[order]
    if table.num_rows == 0:
        return table, np.zeros(0, dtype=np.bool_)
    alike = positions[1:] == positions[:-1]
    keys = table.select(key_columns(table))
    is_first = np.ones(table.num_rows, dtype=np.bool_)
    is_first[1:] = ~alike
    pairs = np.flatnonzero(alike)
    same = same_keys(keys.take(pairs), keys.take(pairs + 1))
    if same.all():
        return table, is_first
    table = table.take(_parted(keys, positions, pairs[~same]))
    keys = table.select(key_columns(table))
    is_first[pairs + 1] = ~same_keys(keys.take(pairs), keys.take(pairs + 1))
    return table, is_first


def _parted(keys: pa.Table, positions: Rows, mixed: Rows) -> Rows:
    """The order in which the rows of positions with several keys lie key by key."""
    order = np.arange(len(positions))
    for position in np.unique(positions[mixed]):
        start, end = np.searchsorted(positions, (position, position + 1))
        by_key: dict[str, list[int]] = {}
        for row, key in zip(range(start, end), _as_text(keys.slice(start, end - start)), strict=True):
            by_key.setdefault(key, []).append(row)
        order[start:end] = [row for rows in by_key.values() for row in rows]
    return order


def _as_text(keys: pa.Table) -> Iterator[str]:
    """A text for each row, by which equal keys are equal, NaN too."""
    return (repr(tuple(row.values())) for row in keys.to_pylist())
