"""Runs a function over keyed state in a dict, which is written and read through Arrow as in a state backend."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.column_types import ColumnType, column_type
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.functions.state_clean_up import remove_expired
from flykka.spark_bridge.functions.state_columns import StateColumns

Row = dict[str, Any]

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(type_: ColumnType) -> pa.DataType:
    match type_.name:
        case "array":
            return pa.list_(arrow_type(type_.parts[0]))
        case "map":
            return pa.map_(*map(arrow_type, type_.parts))
        case "struct":
            return pa.struct(list(zip(type_.fields, map(arrow_type, type_.parts), strict=True)))
        case "decimal":
            return pa.decimal128(*type_.sizes)
    return _SIMPLE[type_.name]


def through_arrow(value: Any, type_: str) -> Any:
    return pa.array([value], arrow_type(column_type(type_, "any"))).to_pylist()[0]


@dataclass(slots=True)
class Entry:
    values: dict[str, Any] = field(default_factory=dict)
    touched_ms: dict[str, Any] = field(default_factory=dict)
    event_timers: list[int] | None = None
    processing_timers: list[int] | None = None


class StateTable:
    """The state of a function and the function that uses it; rows are keyed by their column `key`."""

    def __init__(self, function: KeyedProcessFunction, **runner: Any) -> None:
        self.runner = KeyedFunctionRunner(function, **runner)
        self.runner.open()
        self.entries: dict[Any, Entry] = {}
        self.written: list[Any] = []
        self.side: dict[str, list[Row]] = {}
        self.watermark_ms = WATERMARK_MIN
        self.processing_time_ms = 0

    def process(self, *rows: Row) -> list[Row]:
        """Process a batch; the event time of a row is its column `time`, if the row has one."""
        keys = list(dict.fromkeys(row["key"] for row in rows))
        columns = self._read(keys)
        slots = [keys.index(row["key"]) for row in rows]
        times = [row.get("time") for row in rows]
        return self._written(keys, columns, self.runner.process(slots, keys, rows, times, columns, **self._times)).rows

    def advance_watermark(self, watermark_ms: int) -> list[Row]:
        self.watermark_ms = watermark_ms
        return self._fired(TimeDomain.EVENT_TIME)

    def advance_processing_time(self, processing_time_ms: int) -> list[Row]:
        self.processing_time_ms = processing_time_ms
        return self._fired(TimeDomain.PROCESSING_TIME)

    def clean_up(self) -> None:
        keys = list(self.entries)
        columns = self._read(keys)
        remove_expired(self.runner.descriptors, columns, **self._times)
        self._written(keys, columns, Emitted())

    def state(self, name: str) -> dict[Any, Any]:
        """Return the stored values of a state by key."""
        return {key: entry.values[name] for key, entry in self.entries.items() if entry.values.get(name) is not None}

    @property
    def _times(self) -> dict[str, Any]:
        return {"watermark_ms": self.watermark_ms, "processing_time_ms": self.processing_time_ms}

    def _fired(self, domain: TimeDomain) -> list[Row]:
        keys = list(self.entries)
        columns = self._read(keys)
        return self._written(keys, columns, self.runner.fire(domain, keys, columns, **self._times)).rows

    def _read(self, keys: Sequence[Any]) -> StateColumns:
        entries = deepcopy([self.entries.get(key, Entry()) for key in keys])
        with_ttl = [descriptor.name for descriptor in self.runner.descriptors if descriptor.ttl is not None]
        return StateColumns(
            values={each.name: [entry.values.get(each.name) for entry in entries] for each in self.runner.descriptors},
            touched_ms={name: [entry.touched_ms.get(name) for entry in entries] for name in with_ttl},
            event_timers=[entry.event_timers for entry in entries],
            processing_timers=[entry.processing_timers for entry in entries],
        )

    def _written(self, keys: Sequence[Any], columns: StateColumns, emitted: Emitted) -> Emitted:
        for tag, rows in emitted.side.items():
            self.side.setdefault(tag, []).extend(rows)
        self.written = [keys[slot] for slot in sorted(columns.changed)]
        for slot in columns.changed:
            if columns.is_empty(slot):
                self.entries.pop(keys[slot], None)
            else:
                self.entries[keys[slot]] = self._entry(columns, slot)
        return emitted

    def _entry(self, columns: StateColumns, slot: int) -> Entry:
        timers = (column[slot] for column in (columns.event_timers, columns.processing_timers))
        values, touched = dict[str, Any](), dict[str, Any]()
        for descriptor in self.runner.descriptors:
            values[descriptor.name] = through_arrow(columns.values[descriptor.name][slot], descriptor.column_type)
            if descriptor.touched_type is not None:
                times = columns.touched_ms[descriptor.name][slot]
                touched[descriptor.name] = through_arrow(times, descriptor.touched_type)
        return Entry(values, touched, *(through_arrow(each, "array<bigint>") for each in timers))
