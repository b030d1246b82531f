"""Keeps one row of each key: that with the least or greatest value of a column, or what a function makes of all."""

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
from flykka.spark_bridge.functions.shown import note, shown
from flykka.spark_bridge.worker.keys import Rows
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.rows import dicts, table_of

IS_KEPT = "__kept"
"""The column of state that is true where a row is kept, which may consist of nulls. The others are the row's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepExtremeRow:
    """Keeps the row in which `column` is least, or greatest: of several the first.

    One in which it is null is kept only where all are so. NaN is the greatest number, as for Spark.
    """

    column: str
    is_greatest: bool

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        columns = [name for name in state.column_names if name != IS_KEPT]
        kept = np.flatnonzero(_is_kept(state))
        rows = pa.concat_tables([state.select(columns).take(kept), _as_state(batch, state, columns)])
        best = self._best(rows, np.concatenate([kept, batch.key_of_row()]))
        changed: Rows = np.flatnonzero(best >= len(kept))
        rows = rows.take(best)
        return Processed(rows=rows, state=_kept(rows.take(changed), state.schema), changed=changed)

    def _best(self, rows: pa.Table, keys: Rows) -> Rows:
        """The place of the best row of each key, of which one comes before another by where it stands."""
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
    """Keeps what a function makes of the row that is kept and of the next one."""

    pickled: bytes = field(repr=False)

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        columns = [name for name in state.column_names if name != IS_KEPT]
        reduced = _Reducing(_loaded(self.pickled), columns)
        made: list[Row | None] = [
            row if is_kept else None
            for row, is_kept in zip(dicts(state, columns), _is_kept(state).tolist(), strict=True)
        ]
        for key, row in zip(batch.key_of_row().tolist(), dicts(batch.rows, columns), strict=True):
            kept = made[key]
            made[key] = row if kept is None else reduced(kept, row)
        rows = table_of((row for row in made if row is not None), pa.schema([state.field(name) for name in columns]))
        return Processed(rows=rows, state=_kept(rows, state.schema))


class _Reducing:
    """Calls a function, and checks what it returns."""

    def __init__(self, function: Callable[[Row, Row], Row], columns: list[str]) -> None:
        self._function = function
        self._columns = frozenset(columns)
        self._collector = Collector(columns, None)

    def __call__(self, kept: Row, row: Row) -> Row:
        try:
            made = self._function(kept, row)
            if made.__class__ is not dict or made.keys() != self._columns:
                self._collector.collect([made])
                (made,) = self._collector.take().rows
        except Exception as raised:
            note(raised, f"at row {shown(row)}")
            raise
        return made


def _is_kept(state: pa.Table) -> Rows:
    return np.asarray(pc.fill_null(state.column(IS_KEPT), False).to_numpy())


def _as_state(batch: KeyedBatch, state: pa.Table, columns: list[str]) -> pa.Table:
    return batch.rows.select(columns).cast(pa.schema([state.field(name) for name in columns]))


def _kept(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [*rows.columns, pa.array(np.ones(rows.num_rows, dtype=np.bool_))]
    return pa.Table.from_arrays(columns, names=[*rows.column_names, IS_KEPT]).select(schema.names).cast(schema)


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> Callable[[Row, Row], Row]:
    return reducer(cloudpickle.loads(pickled))
