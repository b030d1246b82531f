"""Calls a user's function with all rows of a batch as one table, and with the state of their keys as another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.functions.shown import shown
from flykka.spark_bridge.worker.frames import frame_of, table_from
from flykka.spark_bridge.worker.key_numbers import key_numbers
from flykka.spark_bridge.worker.keyed_batch import KeyedBatch
from flykka.spark_bridge.worker.keys import KEY_PREFIX, Mask, Rows
from flykka.spark_bridge.worker.process_batch import Processed

TableFunction = Callable[[Any, Any], tuple[Any, Any]]
"""Makes of rows, and of the state of their keys, the rows to emit and the new state; None is none of them."""


class Frames(StrEnum):
    """The tables that a function is given."""

    ARROW = "arrow"
    PANDAS = "pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """Calls the function. `keys` are the names of the keys, `columns` those of the rows, keys among them.

    Keys that are no columns of the rows are handed over beside them.
    """

    pickled: bytes = field(repr=False)
    frames: Frames
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    emitted: pa.Schema

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Process a batch. Raises `FunctionOutputError` where the function returns something else than it has to."""
        rows = batch.rows.select(self.columns)
        for place, name in enumerate(self.keys):
            if name not in self.columns:
                rows = rows.append_column(name, batch.rows.column(f"{KEY_PREFIX}{place}"))
        output, new_state = self._called(rows, self._keyed(batch.keys, state))
        emitted = self.emitted.empty_table() if output is None else _fitting(output, self.emitted, "output")
        if new_state is None:
            return Processed(rows=emitted, state=state.slice(0, 0), changed=np.zeros(0, dtype=np.int64))
        changed, kept, deleted = self._changed(batch, state.schema, new_state)
        return Processed(rows=emitted, state=kept, changed=changed, deleted=deleted)

    def _keyed(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        columns = [keys.column(f"{KEY_PREFIX}{place}") for place in range(len(self.keys))]
        return pa.Table.from_arrays([*columns, *state.columns], names=[*self.keys, *state.column_names])

    def _called(self, rows: pa.Table, state: pa.Table) -> tuple[Any, Any]:
        as_pandas = self.frames is Frames.PANDAS
        given = (frame_of(rows), frame_of(state)) if as_pandas else (rows, state)
        returned = _loaded(self.pickled)(*given)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise FunctionOutputError(
                "the function has to return two tables, its output and the new state, or None in place of one: not"
                f" {shown(returned)}"
            )
        output, new_state = returned
        return table_from(output, "output"), table_from(new_state, "state")

    def _changed(self, batch: KeyedBatch, schema: pa.Schema, new_state: pa.Table) -> tuple[Rows, pa.Table, Mask]:
        """The numbers of the keys with new state, the state, and which of it is none."""
        key_types = [(name, batch.keys.schema.field(f"{KEY_PREFIX}{n}").type) for n, name in enumerate(self.keys)]
        wanted = pa.schema([*key_types, *schema])
        fitting = _fitting(new_state, wanted, "state")
        keys, kept = fitting.select(list(self.keys)), fitting.select(schema.names)
        numbers = _numbers(batch.keys, keys)
        order = np.argsort(numbers, kind="stable")
        deleted = np.ones(len(order), dtype=np.bool_)
        for column in kept.columns:
            deleted &= pc.is_null(column).to_numpy()
        if not np.all(numbers[1:] > numbers[:-1]):
            kept, numbers, deleted = kept.take(order), numbers[order], deleted[order]
        return numbers, kept, deleted


def _numbers(batch_keys: pa.Table, keys: pa.Table) -> Rows:
    """The numbers of the keys of new state in a batch. Raises `FunctionOutputError` for others, and for one twice."""
    asked = pa.Table.from_arrays(
        [batch_keys.column(f"{KEY_PREFIX}{place}") for place in range(keys.num_columns)], schema=keys.schema
    )
    numbers = key_numbers(asked, keys)
    if len(foreign := np.flatnonzero(numbers < 0)):
        raise FunctionOutputError(
            f"the function has returned state of a key that it was not given, {_key(keys, foreign)}: it can change the"
            " state of the keys of its rows"
        )
    counts = np.bincount(numbers, minlength=asked.num_rows)
    if counts.size and counts.max() > 1:
        twice = np.flatnonzero(counts[numbers] > 1)
        raise FunctionOutputError(f"the function has returned two rows of state of the key {_key(keys, twice)}")
    return numbers


def _key(keys: pa.Table, rows: Rows) -> str:
    (key,) = keys.slice(int(rows[0]), 1).to_pylist()
    return ", ".join(f"{name}={shown(value)}" for name, value in key.items())


def _fitting(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """A table with the columns of a schema. Raises `FunctionOutputError` where it has others."""
    _check_names(table.column_names, schema.names, what)
    columns = []
    for each in schema:
        column = table.column(each.name)
        try:
            columns.append(column if column.type.equals(each.type) else column.cast(each.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
            raise FunctionOutputError(
                f"the {what} that the function has returned has the column {each.name!r} of type {column.type}, which"
                f" is to be of type {each.type}: {wrong}"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _check_names(names: Sequence[str], wanted: Sequence[str], what: str) -> None:
    missing = ", ".join(name for name in wanted if name not in names)
    unknown = ", ".join(name for name in names if name not in wanted)
    twice = ", ".join(sorted({name for name in names if names.count(name) > 1}))
    found = {"missing": missing, "not declared": unknown, "there twice": twice}
    if wrong := "; ".join(f"{text}: {columns}" for text, columns in found.items() if columns):
        raise FunctionOutputError(f"the {what} that the function has returned has the wrong columns ({wrong})")


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> TableFunction:
    function: TableFunction = cloudpickle.loads(pickled)
    return function
