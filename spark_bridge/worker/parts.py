"""Partial aggregates by key: those of a batch are merged into the stored ones.

As in Spark, nulls are ignored, NaN is the greatest number, and a sum that does not fit its type is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Rows, key_columns
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed

_COMPUTED_AS: dict[int, Callable[[pa.DataType], pa.DataType]] = {
    # Arrow compares neither booleans nor times with a zone, and the sum of two decimals has one more digit.
    pa.bool_().id: lambda _: pa.uint8(),
    pa.timestamp("us").id: lambda _: pa.int64(),
    pa.decimal128(1).id: lambda decimal: pa.decimal256(min(76, decimal.precision + 1), decimal.scale),
}


class PartFunction(StrEnum):
    """The function that merges two partial aggregates."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


class Overflow(StrEnum):
    """The result of a sum that does not fit its type: an error, its low bits, or null. The values are Spark's names."""

    ERROR = "ANSI"
    WRAP = "LEGACY"
    NULL = "TRY"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeParts:
    """Merges partial aggregates, each with its function, and emits those of the keys in the batch."""

    functions: dict[str, PartFunction]

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        keys = batch.key_of_row()
        new = batch.rows.select(state.column_names).cast(state.schema)
        merged = [
            _merged(function, state.column(name), reduced(function, new.column(name), keys, len(batch.starts)))
            for name, function in self.functions.items()
        ]
        parts = pa.Table.from_arrays(merged, schema=state.schema)
        own = batch.keys.select(key_columns(batch.keys))
        rows = pa.Table.from_arrays([*own.columns, *parts.columns], names=[*own.column_names, *parts.column_names])
        return Processed(rows=rows, state=parts)


def reduced(function: PartFunction, parts: pa.ChunkedArray, keys: Rows, number: int) -> pa.ChunkedArray:
    """Merge the parts of each of `number` keys, ascending numbers, in pairs until each key has one part."""
    while len(keys) > number:
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        ranks = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
        left = np.flatnonzero(ranks % 2 == 0)
        right = np.minimum(left + 1, len(keys) - 1)
        is_alone = (left == right) | (keys[left] != keys[right])
        parts = _merged(function, parts.take(left), parts.take(pa.array(right, mask=is_alone)))
        keys = keys[left]
    return parts


def _merged(function: PartFunction, kept: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.ChunkedArray:
    data_type = kept.type
    if (computed_as := _COMPUTED_AS.get(data_type.id)) is not None:
        kept, new = kept.cast(computed_as(data_type)), new.cast(computed_as(data_type))
    match function:
        case PartFunction.SUM:
            return _sum(kept, new, data_type)
        case PartFunction.MIN:
            return pc.min_element_wise(kept, new).cast(data_type)
        case PartFunction.MAX:
            greater = pc.max_element_wise(kept, new).cast(data_type)
            return _or_nan(_or_nan(greater, kept), new) if pa.types.is_floating(data_type) else greater


def _sum(kept: pa.ChunkedArray, new: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    try:
        added = pc.coalesce(pc.add_checked(kept, new), kept, new)
        return added.cast(data_type)
    except pa.ArrowInvalid as too_large:
        raise OverflowError(f"a running sum is too large for its type, {data_type}: {too_large}") from None


def _or_nan(numbers: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.fill_null(pc.is_nan(others), False), others, numbers)
