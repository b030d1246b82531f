"""Partial aggregates by key: the aggregates of a batch are merged into the stored aggregates.

As in Spark, nulls are ignored, NaN is the greatest number, and a sum that exceeds its type is an error, or wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Rows, key_columns
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed

_COMPUTED_AS: dict[int, Callable[[pa.DataType], pa.DataType]] = {
    # Arrow compares neither booleans nor times with a zone. A sum of two decimals gains a digit, up to 76.
    pa.bool_().id: lambda _: pa.uint8(),
    pa.timestamp("us").id: lambda _: pa.int64(),
    pa.decimal128(1).id: lambda decimal: pa.decimal256(75, decimal.scale),
}

_WHOLE = pa.decimal256(75, 0)
"""The type for sums of integers whose partial sums may exceed the type of integers."""

EXACT_DIGITS = 28
"""Maximum digits of decimals whose sums are exact: Spark adds ten digits for a sum, and its widest decimal has 38."""


class PartFunction(StrEnum):
    SUM = "sum"
    MIN = "min"
    MAX = "max"


class Overflow(StrEnum):
    """The result of a sum that exceeds its type: an error, its low bits, or null. The values are Spark's names."""

    ERROR = "ANSI"
    WRAP = "LEGACY"
    NULL = "TRY"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeParts:
    """Merges partial aggregates by column, and emits those of the batch's keys. Sums in `wrapping` wrap around.

    With a column `weight`, the merged parts have weight 1, and the parts before the batch are emitted with weight -1.
    """

    functions: dict[str, PartFunction]
    wrapping: frozenset[str] = field(default_factory=frozenset)
    weight: str | None = None

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        keys = batch.key_of_row()
        new = batch.rows.select(state.column_names).cast(state.schema)
        merged = [
            reduced(
                function,
                new.column(name),
                keys,
                len(batch.starts),
                kept=state.column(name),
                wraps=name in self.wrapping,
            )
            for name, function in self.functions.items()
        ]
        parts = pa.Table.from_arrays(merged, schema=state.schema)
        keys_and_parts = _side_by_side(batch.keys.select(key_columns(batch.keys)), parts)
        return Processed(rows=self._emitted(keys_and_parts, state), state=parts)

    def _emitted(self, rows: pa.Table, state: pa.Table) -> pa.Table:
        if self.weight is None:
            return rows
        # The last part is the number of rows, which is null only for keys without state.
        had_state = state.columns[-1].is_valid()
        before = _side_by_side(rows.select(range(rows.num_columns - state.num_columns)), state).filter(had_state)
        weights = np.repeat(np.array([-1, 1]), [before.num_rows, rows.num_rows])
        return pa.concat_tables([before, rows]).append_column(self.weight, pa.array(weights))


def _side_by_side(left: pa.Table, right: pa.Table) -> pa.Table:
    names = [*left.column_names, *right.column_names]
    return pa.Table.from_arrays([*left.columns, *right.columns], names=names)


def reduced(
    function: PartFunction,
    parts: pa.ChunkedArray,
    keys: Rows,
    number: int,
    *,
    kept: pa.ChunkedArray | None = None,
    wraps: bool = False,
) -> pa.ChunkedArray:
    """Merge the partial aggregates of each of `number` keys, including the stored aggregates `kept`, if any. `keys` are
    ascending.

    Raises:
        OverflowError: a sum that does not wrap exceeds its type. Intermediate sums may exceed it.
    """
    data_type = parts.type
    types = [_COMPUTED_AS.get(data_type.id, lambda same: same)(data_type)]
    if function is PartFunction.SUM and pa.types.is_integer(data_type):
        types.append(_WHOLE)
    merge = _ADD_WRAPPING if wraps else _MERGE[function]
    for computed_as in types:
        try:
            merged = _in_pairs(merge, parts.cast(computed_as), keys, number)
            return (merged if kept is None else merge(kept.cast(computed_as), merged)).cast(data_type)
        except pa.ArrowInvalid as invalid:
            too_large = invalid
    raise OverflowError(f"a running sum is too large for its type, {data_type}: {too_large}") from None


def _in_pairs(merge: _Merge, parts: pa.ChunkedArray, keys: Rows, number: int) -> pa.ChunkedArray:
    """Merge the partial aggregates of each of `number` keys in pairs, until each key has one aggregate."""
    while len(keys) > number:
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        ranks = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
        left = np.flatnonzero(ranks % 2 == 0)
        right = np.minimum(left + 1, len(keys) - 1)
        is_alone = (left == right) | (keys[left] != keys[right])
        parts = merge(parts.take(left), parts.take(pa.array(right, mask=is_alone)))
        keys = keys[left]
    return parts


_Merge = Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.ChunkedArray]


def _sum(add: _Merge, kept: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.coalesce(add(kept, new).cast(kept.type), kept, new)


def _greatest(kept: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.ChunkedArray:
    greater = pc.max_element_wise(kept, new)
    return _or_nan(_or_nan(greater, kept), new) if pa.types.is_floating(kept.type) else greater


def _or_nan(numbers: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.fill_null(pc.is_nan(others), False), others, numbers)


_ADD_WRAPPING = partial(_sum, pc.add)
_MERGE: dict[PartFunction, _Merge] = {
    PartFunction.SUM: partial(_sum, pc.add_checked),
    PartFunction.MIN: pc.min_element_wise,
    PartFunction.MAX: _greatest,
}
