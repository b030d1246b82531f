"""Calls a user's function with two tables: all rows of a batch, and the state of their keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.functions.error_texts import short_repr
from flykka.spark_bridge.functions.times import first_micros_of
from flykka.spark_bridge.worker.frames import frame_of, table_from
from flykka.spark_bridge.worker.keys import KEY_PREFIX, Rows, key_numbers
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.time_columns import millis

TableFunction = Callable[..., tuple[Any, Any]]
"""A function from rows and the state of their keys, or the state of keys with due timers, to output and new state."""


class Frames(StrEnum):
    """The class of the tables passed to a function."""

    ARROW = "arrow"
    PANDAS = "pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A pickled function of rows or of timers. `keys` are the names of the keys, `columns` the names of the rows'
    columns.

    `timer` is the optional column of state with the next timer of a key.
    """

    pickled: bytes = field(repr=False)
    frames: Frames
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    emitted: pa.Schema
    timer: str | None = None

    def called(self, *tables: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Call the function, with state last. Return its output and the new state. Raises `FunctionOutputError`."""
        arguments = [frame_of(table) for table in tables] if self.frames is Frames.PANDAS else tables
        returned = _loaded(self.pickled)(*arguments)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise FunctionOutputError(
                "the function must return two tables, its output and the new state, or None instead of one: not"
                f" {short_repr(returned)}"
            )
        output, new_state = returned
        return table_from(output, self.emitted, "output"), table_from(new_state, tables[-1].schema, "state")

    def state_table(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        columns = [keys.column(f"{KEY_PREFIX}{place}") for place in range(len(self.keys))]
        visible = state.select([name for name in state.column_names if name != NEXT_EVENT_TIMER])
        return pa.Table.from_arrays([*columns, *visible.columns], names=[*self.keys, *visible.column_names])

    def changed(self, passed: pa.Table, new_state: pa.Table) -> tuple[Rows, pa.Table]:
        """Return the ascending numbers of the keys with new state, and the state without the key columns."""
        numbers = _numbers(passed.select(list(self.keys)), new_state.select(list(self.keys)))
        state = new_state.drop_columns(list(self.keys))
        if np.all(numbers[1:] > numbers[:-1]):
            return numbers, state
        order = np.argsort(numbers, kind="stable")
        return numbers[order], state.take(order)

    def processed(self, emitted: pa.Table, changed: Rows, state: pa.Table, schema: pa.Schema) -> Processed:
        """Return the results of a batch. State that is null in all columns is deleted."""
        deleted = np.ones(len(changed), dtype=np.bool_)
        for column in state.columns:
            deleted &= pc.is_null(column).to_numpy()
        if self.timer is not None:
            # Rounded up, so that no timer fires before its time.
            state = state.append_column(NEXT_EVENT_TIMER, millis(state.column(self.timer), rounded_up=True))
        return Processed(rows=emitted, state=state.select(schema.names), changed=changed, deleted=deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """Calls the function for the rows of a batch. Keys that are not columns of the rows are added as columns."""

    spec: TableSpec

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        spec = self.spec
        rows = batch.rows.select(spec.columns)
        for place, name in enumerate(spec.keys):
            if name not in spec.columns:
                rows = rows.append_column(name, batch.rows.column(f"{KEY_PREFIX}{place}"))
        passed = spec.state_table(batch.keys, state)
        emitted, new_state = spec.called(rows, passed)
        changed, changed_state = spec.changed(passed, new_state)
        return spec.processed(emitted, changed, changed_state, state.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTableTimers:
    """Calls the timer function for the state of the keys with due timers. A fired timer is removed."""

    spec: TableSpec
    due_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        spec = self.spec
        is_due = pc.less_equal(state.column(NEXT_EVENT_TIMER), self.due_ms)
        due: Rows = np.flatnonzero(pc.fill_null(is_due, False).to_numpy())
        passed = spec.state_table(batch.keys.take(due), state.take(due))
        if not len(due):
            return spec.processed(spec.emitted.empty_table(), due, passed.drop_columns(list(spec.keys)), state.schema)
        emitted, new_state = spec.called(passed)
        values = passed.drop_columns(list(spec.keys))
        changed, new = spec.changed(passed, new_state)
        places = np.arange(len(due))
        places[changed] = len(due) + np.arange(len(changed))
        values = pa.concat_tables([values, new]).take(places)
        return spec.processed(emitted, due, self._without_fired(values), state.schema)

    def _without_fired(self, values: pa.Table) -> pa.Table:
        assert self.spec.timer is not None, "the function has no timers"
        timers = values.column(self.spec.timer)
        has_fired = pc.less_equal(timers.cast(pa.int64()), first_micros_of(self.due_ms))
        remaining = pc.if_else(pc.fill_null(has_fired, False), pa.scalar(None, timers.type), timers)
        return values.set_column(values.column_names.index(self.spec.timer), self.spec.timer, remaining)


def _numbers(passed: pa.Table, keys: pa.Table) -> Rows:
    """Return the key numbers of new state in a batch. Raises `FunctionOutputError` for unknown or duplicate keys."""
    numbers = key_numbers(passed, keys)
    if len(foreign := np.flatnonzero(numbers < 0)):
        raise FunctionOutputError(
            f"the function returned state of a key that it did not receive, {_key(keys, foreign)}: it can only change"
            " the state that it receives"
        )
    counts = np.bincount(numbers, minlength=passed.num_rows)
    if counts.size and counts.max() > 1:
        twice = np.flatnonzero(counts[numbers] > 1)
        raise FunctionOutputError(f"the function returned two rows of state of the key {_key(keys, twice)}")
    return numbers


def _key(keys: pa.Table, rows: Rows) -> str:
    (key,) = keys.slice(int(rows[0]), 1).to_pylist()
    return ", ".join(f"{name}={short_repr(value)}" for name, value in key.items())


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> TableFunction:
    function: TableFunction = cloudpickle.loads(pickled)
    return function
