"""Partial aggregates by key: those of a batch are merged into those that are kept.

Nulls are passed over, NaN is the greatest number, and a sum that its type cannot hold is an error, as for Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keyed_batch import KeyedBatch
from flykka.spark_bridge.worker.keys import key_columns
from flykka.spark_bridge.worker.process_batch import Processed


class PartFunction(StrEnum):
    """The function that merges two parts."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeParts:
    """Merges parts, each by its function, and emits those of every key of the batch."""

    functions: dict[str, PartFunction]

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Merge a batch of parts into the state of its keys."""
        merged = [
            _merged(function, state.column(name), self._of_batch(batch, name, function))
            for name, function in self.functions.items()
        ]
        parts = pa.Table.from_arrays(merged, schema=state.schema)
        keys = batch.keys.select(key_columns(batch.keys))
        rows = pa.Table.from_arrays([*keys.columns, *parts.columns], names=[*keys.column_names, *parts.column_names])
        return Processed(rows=rows, state=parts)

    def _of_batch(self, batch: KeyedBatch, name: str, function: PartFunction) -> pa.ChunkedArray:
        column = batch.rows.column(name)
        if batch.has_one_row_of_each:
            return column
        grouped = pa.table({"key": batch.key_of_row(), name: column}).group_by("key", use_threads=False)
        aggregated = grouped.aggregate([(name, function)]).column(f"{name}_{function}")
        return aggregated.cast(column.type)


def _merged(function: PartFunction, kept: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.ChunkedArray:
    match function:
        case PartFunction.SUM:
            added = pc.add_checked(kept, new).cast(kept.type)
            return pc.coalesce(added, kept, new) if added.null_count else added
        case PartFunction.MIN:
            return pc.min_element_wise(kept, new)
        case PartFunction.MAX:
            greater = pc.max_element_wise(kept, new)
            return _or_nan(_or_nan(greater, kept), new) if pa.types.is_floating(kept.type) else greater


def _or_nan(numbers: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    """NaN where the others are NaN."""
    return pc.if_else(pc.fill_null(pc.is_nan(others), False), others, numbers)
