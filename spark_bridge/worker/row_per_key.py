"""Stores one row per key: the row with the least or greatest value of a column, or a reduction of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from flykka.spark_bridge.functions.aggregate_function import reducer
from flykka.spark_bridge.functions.emission import Collector, Row
from flykka.spark_bridge.functions.error_texts import add_note, short_repr
from flykka.spark_bridge.worker.keys import Rows
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.rows import dicts, table_of

HAS_ROW = "__kept"
"""The column of state that is true if a key has a row, which may consist of nulls. The other columns contain the
row.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepExtremeRow:
    """Stores the row with the least or greatest `column`; the first such row if there are several.

    Rows with null in the column are stored only if the key has no other rows. NaN is the greatest number, as in Spark.
    """

    column: str
    is_greatest: bool

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        columns = [name for name in state.column_names if name != HAS_ROW]
        stored = np.flatnonzero(_has_row(state))
        rows = pa.concat_tables([state.select(columns).take(stored), _as_state(batch, state, columns)])
        best = self._best(rows, np.concatenate([stored, batch.key_of_row()]))
        changed: Rows = np.flatnonzero(best >= len(stored))
        rows = rows.take(best)
        return Processed(rows=rows, state=_as_segment(rows.take(changed), state.schema), changed=changed)

    def _best(self, rows: pa.Table, keys: Rows) -> Rows:
        """Return the index of each key's best row, the first of equally good rows."""
        values = rows.column(self.column)
        order = pa.table({"key": keys, "value": values, "place": np.arange(len(keys))})
        sorting = [("key", "ascending"), ("value", "descending" if self.is_greatest else "ascending")]
        if self.is_greatest and pa.types.is_floating(values.type):
            order = order.append_column("nan", pc.fill_null(pc.is_nan(values), False).cast(pa.int8()))
            sorting.insert(1, ("nan", "descending"))
        places = pc.sort_indices(order, [*sorting, ("place", "ascending")]).to_numpy().astype(np.int64)
        sorted_keys = keys[places]
        best: Rows = places[np.append(True, sorted_keys[1:] != sorted_keys[:-1])]
        return best


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRows:
    pickled: bytes = field(repr=False)

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        columns = [name for name in state.column_names if name != HAS_ROW]
        reduced = _Reducing(_loaded(self.pickled), columns)
        rows_of_keys: list[Row | None] = [
            row if has_row else None
            for row, has_row in zip(dicts(state, columns), _has_row(state).tolist(), strict=True)
        ]
        for key, row in zip(batch.key_of_row().tolist(), dicts(batch.rows, columns), strict=True):
            previous = rows_of_keys[key]
            rows_of_keys[key] = row if previous is None else reduced(previous, row)
        rows = table_of(
            (row for row in rows_of_keys if row is not None), pa.schema([state.field(name) for name in columns])
        )
        return Processed(rows=rows, state=_as_segment(rows, state.schema))


class _Reducing:
    def __init__(self, function: Callable[[Row, Row], Row], columns: list[str]) -> None:
        self._function = function
        self._columns = frozenset(columns)
        self._collector = Collector(columns, None)

    def __call__(self, previous: Row, row: Row) -> Row:
        try:
            result = self._function(previous, row)
            if result.__class__ is not dict or result.keys() != self._columns:
                self._collector.collect([result])
                (result,) = self._collector.drain().rows
        except Exception as raised:
            add_note(raised, f"at row {short_repr(row)}")
            raise
        return result


def _has_row(state: pa.Table) -> Rows:
    return np.asarray(pc.fill_null(state.column(HAS_ROW), False).to_numpy())


def _as_state(batch: KeyedBatch, state: pa.Table, columns: list[str]) -> pa.Table:
    return batch.rows.select(columns).cast(pa.schema([state.field(name) for name in columns]))


def _as_segment(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [*rows.columns, pa.array(np.ones(rows.num_rows, dtype=np.bool_))]
    return pa.Table.from_arrays(columns, names=[*rows.column_names, HAS_ROW]).select(schema.names).cast(schema)


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> Callable[[Row, Row], Row]:
    return reducer(cloudpickle.loads(pickled))
