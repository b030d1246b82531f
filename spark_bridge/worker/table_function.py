"""Calls a user's function with all rows of a batch as one table, and with the state of their keys as another."""

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
from flykka.spark_bridge.functions.shown import shown
from flykka.spark_bridge.functions.times import first_micros_of
from flykka.spark_bridge.worker.frames import frame_of, table_from
from flykka.spark_bridge.worker.keys import KEY_PREFIX, Rows, key_numbers
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.time_columns import millis

TableFunction = Callable[..., tuple[Any, Any]]
"""Makes of rows and the state of their keys, or of the state of keys with timers that are due, output and new state."""


class Frames(StrEnum):
    """The tables that a function is given."""

    ARROW = "arrow"
    PANDAS = "pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A function, pickled, as are those of timers. `keys` are the names of the keys, `columns` those of the rows.

    `timer` is the column of state that has the first timer of a key, if there is one.
    """

    pickled: bytes = field(repr=False)
    frames: Frames
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    emitted: pa.Schema
    timer: str | None = None

    def called(self, *tables: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Call the function, with state last; its output and the new state. Raises `FunctionOutputError`."""
        given = [frame_of(table) for table in tables] if self.frames is Frames.PANDAS else tables
        returned = _loaded(self.pickled)(*given)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise FunctionOutputError(
                "the function has to return two tables, its output and the new state, or None in place of one: not"
                f" {shown(returned)}"
            )
        output, new_state = returned
        return table_from(output, self.emitted, "output"), table_from(new_state, tables[-1].schema, "state")

    def given(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        columns = [keys.column(f"{KEY_PREFIX}{place}") for place in range(len(self.keys))]
        seen = state.select([name for name in state.column_names if name != NEXT_EVENT_TIMER])
        return pa.Table.from_arrays([*columns, *seen.columns], names=[*self.keys, *seen.column_names])

    def changed(self, given: pa.Table, new_state: pa.Table) -> tuple[Rows, pa.Table]:
        """The numbers of the keys with new state, which ascend, and the state without its keys."""
        numbers = _numbers(given.select(list(self.keys)), new_state.select(list(self.keys)))
        kept = new_state.drop_columns(list(self.keys))
        if np.all(numbers[1:] > numbers[:-1]):
            return numbers, kept
        order = np.argsort(numbers, kind="stable")
        return numbers[order], kept.take(order)

    def processed(self, emitted: pa.Table, changed: Rows, kept: pa.Table, schema: pa.Schema) -> Processed:
        """The results of a batch. State that is null in all columns is none."""
        deleted = np.ones(len(changed), dtype=np.bool_)
        for column in kept.columns:
            deleted &= pc.is_null(column).to_numpy()
        if self.timer is not None:
            # No timer fires before its time.
            kept = kept.append_column(NEXT_EVENT_TIMER, millis(kept.column(self.timer), rounded_up=True))
        return Processed(rows=emitted, state=kept.select(schema.names), changed=changed, deleted=deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """Calls the function for the rows of a batch. Keys that are no columns of the rows are handed over beside them."""

    spec: TableSpec

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Process a batch. Raises `FunctionOutputError` where the function returns something else than it has to."""
        spec = self.spec
        rows = batch.rows.select(spec.columns)
        for place, name in enumerate(spec.keys):
            if name not in spec.columns:
                rows = rows.append_column(name, batch.rows.column(f"{KEY_PREFIX}{place}"))
        given = spec.given(batch.keys, state)
        emitted, new_state = spec.called(rows, given)
        changed, kept = spec.changed(given, new_state)
        return spec.processed(emitted, changed, kept, state.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTableTimers:
    """Calls the function of timers for the state of the keys whose timers are due. A timer that has fired is none."""

    spec: TableSpec
    due_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Fire timers. Raises `FunctionOutputError` where the function returns something else than it has to."""
        spec = self.spec
        is_due = pc.less_equal(state.column(NEXT_EVENT_TIMER), self.due_ms)
        due: Rows = np.flatnonzero(pc.fill_null(is_due, False).to_numpy())
        given = spec.given(batch.keys.take(due), state.take(due))
        if not len(due):
            return spec.processed(spec.emitted.empty_table(), due, given.drop_columns(list(spec.keys)), state.schema)
        emitted, new_state = spec.called(given)
        kept = given.drop_columns(list(spec.keys))
        changed, new = spec.changed(given, new_state)
        places = np.arange(len(due))
        places[changed] = len(due) + np.arange(len(changed))
        kept = pa.concat_tables([kept, new]).take(places)
        return spec.processed(emitted, due, self._without_fired(kept), state.schema)

    def _without_fired(self, kept: pa.Table) -> pa.Table:
        assert self.spec.timer is not None, "there are timers"
        timers = kept.column(self.spec.timer)
        has_fired = pc.less_equal(timers.cast(pa.int64()), first_micros_of(self.due_ms))
        left = pc.if_else(pc.fill_null(has_fired, False), pa.scalar(None, timers.type), timers)
        return kept.set_column(kept.column_names.index(self.spec.timer), self.spec.timer, left)


def _numbers(given: pa.Table, keys: pa.Table) -> Rows:
    """The numbers of the keys of new state in a batch. Raises `FunctionOutputError` for others, and for one twice."""
    numbers = key_numbers(given, keys)
    if len(foreign := np.flatnonzero(numbers < 0)):
        raise FunctionOutputError(
            f"the function has returned state of a key that it was not given, {_key(keys, foreign)}: it can change the"
            " state that it is given"
        )
    counts = np.bincount(numbers, minlength=given.num_rows)
    if counts.size and counts.max() > 1:
        twice = np.flatnonzero(counts[numbers] > 1)
        raise FunctionOutputError(f"the function has returned two rows of state of the key {_key(keys, twice)}")
    return numbers


def _key(keys: pa.Table, rows: Rows) -> str:
    (key,) = keys.slice(int(rows[0]), 1).to_pylist()
    return ", ".join(f"{name}={shown(value)}" for name, value in key.items())


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> TableFunction:
    function: TableFunction = cloudpickle.loads(pickled)
    return function
