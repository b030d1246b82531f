"""Runs a KeyedProcessFunction over a batch, or over timers that are due: between Arrow's columns and Python's lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.functions.runtime_context import TaskInfo
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.worker.keyed_batch import KeyedBatch
from flykka.spark_bridge.worker.keys import key_columns
from flykka.spark_bridge.worker.process_batch import Processed
from flykka.spark_bridge.worker.segment_file import NEXT_TIMER

EVENT_TIMERS = "__event_timers"
PROCESSING_TIMERS = "__processing_timers"
TOUCHED = "__touched_"
"""Begins the name of the column of times from which the values of a state live."""

_opened: dict[str, tuple[str, KeyedFunctionRunner]] = {}
"""The functions that this process has opened, by subtask, with the attempts that they are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """A function as it is sent to workers: pickled, with the columns that it reads and those that it emits."""

    pickled: bytes = field(repr=False)
    task: TaskInfo
    subtask: str
    attempt: str
    time_column: str | None
    columns: tuple[str, ...]
    emitted: pa.Schema
    side: Mapping[str, pa.Schema]

    def runner(self) -> KeyedFunctionRunner:
        """The function, opened by the first batch of an attempt that comes to this process."""
        attempt, runner = _opened.get(self.subtask, (None, None))
        if runner is None or attempt != self.attempt:
            if runner is not None:
                del _opened[self.subtask]
                runner.close()
            runner = KeyedFunctionRunner(
                cloudpickle.loads(self.pickled),
                self.task,
                columns=self.emitted.names,
                side_columns={tag: schema.names for tag, schema in self.side.items()},
            )
            runner.open()
            _opened[self.subtask] = self.attempt, runner
        return runner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRows:
    """Calls the function for every row of a batch, in the order of positions, and of arrival within a key."""

    spec: FunctionSpec
    watermark_ms: int
    processing_time_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Process a batch."""
        columns = _columns_of(state)
        emitted = self.spec.runner().process(
            batch.key_of_row().tolist(),
            _keys(batch.keys),
            _rows(batch.rows.select(self.spec.columns)),
            _timestamps(batch.rows, self.spec.time_column),
            columns,
            watermark_ms=self.watermark_ms,
            processing_time_ms=self.processing_time_ms,
        )
        return _processed(self.spec, emitted, columns, state.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimers:
    """Calls the function for every timer of some keys that is due."""

    spec: FunctionSpec
    domain: TimeDomain
    watermark_ms: int
    processing_time_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Fire the timers of the keys of a batch."""
        columns = _columns_of(state)
        emitted = self.spec.runner().fire(
            self.domain,
            _keys(batch.keys),
            columns,
            watermark_ms=self.watermark_ms,
            processing_time_ms=self.processing_time_ms,
        )
        return _processed(self.spec, emitted, columns, state.schema)


def _columns_of(state: pa.Table) -> StateColumns:
    listed = {name: state.column(name).to_pylist() for name in state.column_names if name != NEXT_TIMER}
    event_timers, processing_timers = listed.pop(EVENT_TIMERS), listed.pop(PROCESSING_TIMERS)
    touched = {name.removeprefix(TOUCHED): listed.pop(name) for name in list(listed) if name.startswith(TOUCHED)}
    return StateColumns(
        values=listed, touched_ms=touched, event_timers=event_timers, processing_timers=processing_timers
    )


def _processed(spec: FunctionSpec, emitted: Emitted, columns: StateColumns, schema: pa.Schema) -> Processed:
    slots = sorted(columns.changed)
    lists = {
        **columns.values,
        **{f"{TOUCHED}{name}": times for name, times in columns.touched_ms.items()},
        EVENT_TIMERS: columns.event_timers,
        PROCESSING_TIMERS: columns.processing_timers,
    }
    lists[NEXT_TIMER] = [timers[0] if timers else None for timers in columns.event_timers]
    changed = [_array([lists[field.name][slot] for slot in slots], field.type) for field in schema]
    return Processed(
        rows=_output(emitted, spec),
        state=pa.Table.from_arrays(changed, schema=schema),
        changed=np.array(slots, dtype=np.int64),
        deleted=np.array([columns.is_empty(slot) for slot in slots], dtype=np.bool_),
    )


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_map(data_type):
        values = [list(value.items()) if isinstance(value, dict) else value for value in values]
    return pa.array(values, data_type)


def _output(emitted: Emitted, spec: FunctionSpec) -> pa.Table:
    return _table(emitted.rows, spec.emitted)


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _keys(keys: pa.Table) -> list[Any]:
    listed = [keys.column(name).to_pylist() for name in key_columns(keys)]
    return listed[0] if len(listed) == 1 else list(zip(*listed, strict=True))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    names = table.column_names
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _timestamps(table: pa.Table, column: str | None) -> list[int | None] | None:
    if column is None:
        return None
    in_ms = pc.cast(table.column(column), pa.timestamp("ms", "UTC"), safe=False)
    listed: list[int | None] = in_ms.cast(pa.int64()).to_pylist()
    return listed
