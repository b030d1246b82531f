"""Converts keyed state between Arrow columns and the Python lists that functions use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from flykka.spark_bridge.functions.state_clean_up import remove_expired
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.worker.rows import listed
from flykka.spark_bridge.worker.segment_file import (
    IS_DELETED,
    NEXT_EVENT_TIMER,
    NEXT_PROCESSING_TIMER,
    state_columns,
)

EVENT_TIMERS = "__event_timers"
PROCESSING_TIMERS = "__processing_timers"
TOUCHED = "__touched_"
"""The prefix of the column with access times of a state."""

_FIRST_TIMERS = {NEXT_EVENT_TIMER: EVENT_TIMERS, NEXT_PROCESSING_TIMER: PROCESSING_TIMERS}


def as_lists(state: pa.Table) -> StateColumns:
    columns = {name: listed(state.column(name)) for name in state.column_names if name not in _FIRST_TIMERS}
    event_timers, processing_timers = columns.pop(EVENT_TIMERS), columns.pop(PROCESSING_TIMERS)
    touched = {name.removeprefix(TOUCHED): columns.pop(name) for name in list(columns) if name.startswith(TOUCHED)}
    return StateColumns(
        values=columns, touched_ms=touched, event_timers=event_timers, processing_timers=processing_timers
    )


def as_table(columns: StateColumns, slots: Sequence[int], schema: pa.Schema) -> pa.Table:
    lists: dict[str, list[Any]] = {
        **columns.values,
        **{f"{TOUCHED}{name}": times for name, times in columns.touched_ms.items()},
        EVENT_TIMERS: columns.event_timers,
        PROCESSING_TIMERS: columns.processing_timers,
    }
    for name, timers in _FIRST_TIMERS.items():
        lists[name] = [each[0] if each else None for each in lists[timers]]
    return pa.Table.from_arrays(
        [_array([lists[each.name][slot] for slot in slots], each.type) for each in schema], schema=schema
    )


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_map(data_type):
        values = [list(value.items()) if isinstance(value, dict) else value for value in values]
    return pa.array(values, data_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpired:
    """Removes state that has expired at these times. Keys whose state is empty afterwards are deleted.

    `descriptors` are the pickled descriptors of the states with time-to-live.
    """

    descriptors: bytes = field(repr=False)
    watermark_ms: int
    processing_time_ms: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Remove expired state. The rows keep their order."""
        descriptors = cloudpickle.loads(self.descriptors)
        has_expired = np.zeros(rows.num_rows, dtype=np.bool_)
        for each in descriptors:
            expired_to = each.ttl.expired_to(watermark_ms=self.watermark_ms, processing_time_ms=self.processing_time_ms)
            earliest = _earliest(rows.column(f"{TOUCHED}{each.name}").combine_chunks())
            has_expired |= pc.fill_null(pc.less_equal(earliest, expired_to), False).to_numpy(zero_copy_only=False)
        if not has_expired.any():
            return rows
        expired = rows.filter(pa.array(has_expired))
        schema = state_columns(rows.schema)
        columns = as_lists(expired.select(schema.names))
        remove_expired(descriptors, columns, watermark_ms=self.watermark_ms, processing_time_ms=self.processing_time_ms)
        slots = range(expired.num_rows)
        remaining = as_table(columns, slots, schema)
        for name in schema.names:
            expired = expired.set_column(expired.column_names.index(name), schema.field(name), remaining.column(name))
        is_deleted = pc.or_(expired.column(IS_DELETED), pa.array([columns.is_empty(slot) for slot in slots]))
        expired = expired.set_column(expired.column_names.index(IS_DELETED), IS_DELETED, is_deleted)
        order = np.argsort(np.concatenate([np.flatnonzero(~has_expired), np.flatnonzero(has_expired)]))
        return pa.concat_tables([rows.filter(pa.array(~has_expired)), expired]).take(order)


def _earliest(touched: pa.Array) -> pa.Array:
    """Return the earliest time in each row of an array: the row is a time, a list of times, or a map to times."""
    if pa.types.is_integer(touched.type):
        return touched
    times = touched.items if pa.types.is_map(touched.type) else touched.flatten()
    of_lists = pa.ListArray.from_arrays(touched.offsets, times) if pa.types.is_map(touched.type) else touched
    grouped = pa.table({"row": pc.list_parent_indices(of_lists), "time": of_lists.flatten()}).group_by("row")
    earliest = grouped.aggregate([("time", "min")])
    earliest_times = np.full(len(touched), np.iinfo(np.int64).max)
    earliest_times[earliest.column("row").to_numpy()] = earliest.column("time_min").to_numpy()
    return pa.array(earliest_times)
