"""Compares keys in columns.

Keys are equal by Spark's rule (`equality`). Two keys may share a position, though rarely: the rows of such positions
are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.functions.equal_values import normalised_value
from flykka.spark_bridge.rows.equality import normalised_values

KEY_PREFIX = "__key_"
"""The prefix of key columns, which is followed by the index of the key."""

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


def key_columns(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name.startswith(KEY_PREFIX)]


def same_rows(left: pa.Table, right: pa.Table) -> Mask:
    same = np.ones(left.num_rows, dtype=np.bool_)
    for one, other in zip(left.columns, right.columns, strict=True):
        same &= same_values(one, other)
    return same


def same_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Return True for each value of `left` that equals the value of `right` with the same index.

    Null equals null, and NaN equals NaN.
    """
    if pa.types.is_nested(left.type):
        pairs = zip(_normalised(left), _normalised(right), strict=True)
        return np.fromiter((one == other for one, other in pairs), np.bool_, len(left))
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if left.null_count or right.null_count:
        equal = pc.coalesce(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    return np.asarray(equal.to_numpy(), dtype=np.bool_)


def sorted_by_key(table: pa.Table, positions: Rows, order: Rows) -> tuple[pa.Table, Mask]:
    """Sort rows so that rows with equal keys are adjacent. Return them with a mask of the first row of each key.

    `order` sorts the rows by position. Rows of a key keep this order.
    """
    table, positions = table.take(order), positions[order]
    if table.num_rows == 0:
        return table, np.zeros(0, dtype=np.bool_)
    alike = positions[1:] == positions[:-1]
    keys = table.select(key_columns(table))
    is_first = np.ones(table.num_rows, dtype=np.bool_)
    is_first[1:] = ~alike
    pairs = np.flatnonzero(alike)
    same = same_rows(keys.take(pairs), keys.take(pairs + 1))
    if same.all():
        return table, is_first
    table = table.take(_parted(keys, positions, pairs[~same]))
    keys = table.select(key_columns(table))
    is_first[pairs + 1] = ~same_rows(keys.take(pairs), keys.take(pairs + 1))
    return table, is_first


def _parted(keys: pa.Table, positions: Rows, mixed: Rows) -> Rows:
    """Return an order that groups rows by key, for rows at positions with several keys."""
    order = np.arange(len(positions))
    for position in np.unique(positions[mixed]):
        start, end = np.searchsorted(positions, (position, position + 1))
        order[start:end] = start + np.argsort(numbers_of_rows(keys.slice(start, end - start)), kind="stable")
    return order


def key_numbers(known: pa.Table, keys: pa.Table) -> Rows:
    """Return for each row of `keys` the index of the equal row in `known`; -1 if there is none.

    The two tables have the same columns, and the keys in `known` are distinct.
    """
    if keys.num_rows <= known.num_rows and keys.equals(known.slice(0, keys.num_rows)):
        return np.arange(keys.num_rows)
    pairs = zip(known.columns, keys.columns, strict=True)
    both = [pa.chunked_array([*ours.chunks, *theirs.chunks], ours.type) for ours, theirs in pairs]
    numbers = numbers_of_rows(pa.Table.from_arrays(both, names=known.column_names))
    rows = np.full(numbers.max(initial=-1) + 1, -1)
    rows[numbers[: known.num_rows]] = np.arange(known.num_rows)
    return rows[numbers[known.num_rows :]]


def numbers_of_rows(table: pa.Table) -> Rows:
    """Number the rows from 0, with the same number for equal rows."""
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        values = _numbers(column)
        # The numbers are made consecutive after each column, so that the next column cannot overflow.
        _, numbers = np.unique(numbers * (values.max(initial=0) + 1) + values, return_inverse=True)
    return numbers


def _numbers(values: pa.ChunkedArray) -> Rows:
    if pa.types.is_nested(values.type):
        number_of: dict[Any, int] = {}
        return np.fromiter(
            (number_of.setdefault(value, len(number_of)) for value in _normalised(values)), np.int64, len(values)
        )
    encoded = pc.dictionary_encode(normalised_values(values).combine_chunks(), null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _normalised(values: pa.ChunkedArray) -> Iterator[Any]:
    return map(normalised_value, values.to_pylist())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    column: str
    is_descending: bool
    nulls_first: bool


def in_order(rows: pa.Table, key_of: Rows, orders: Sequence[RowOrder]) -> Rows:
    """Return the indices of the rows, grouped by key and in order; rows with equal order keep their order."""
    columns: dict[str, Any] = {"key": key_of}
    sorting = [("key", "ascending")]
    for place, each in enumerate(orders):
        values = rows.column(each.column)
        direction = "descending" if each.is_descending else "ascending"
        columns[f"null{place}"] = pc.is_null(values).cast(pa.int8())
        sorting.append((f"null{place}", "descending" if each.nulls_first else "ascending"))
        if pa.types.is_floating(values.type):
            # NaN is the greatest number for Spark, but Arrow sorts it next to the nulls.
            columns[f"nan{place}"] = pc.fill_null(pc.is_nan(values), False).cast(pa.int8())
            sorting.append((f"nan{place}", direction))
        columns[f"value{place}"] = values
        sorting.append((f"value{place}", direction))
    columns["place"] = np.arange(len(key_of))
    table = pa.table(columns)
    sorted_rows: Rows = pc.sort_indices(table, [*sorting, ("place", "ascending")]).to_numpy().astype(np.int64)
    return sorted_rows


def counted_in_keys(keys: Rows) -> Rows:
    """Return the position of each element within its run of equal elements, counted from 1."""
    if not len(keys):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counted: Rows = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys)))) + 1
    return counted
