"""Plain Python functions of rows, which are dicts by column name, as arguments of `mapInArrow`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flykka.spark_bridge.functions.emission import Collector, Row
from flykka.spark_bridge.functions.error_texts import add_note, short_repr
from flykka.spark_bridge.worker.rows import dicts, table_of
from flykka.spark_bridge.worker.time_columns import as_held


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRows:
    function: Callable[[Row], Row]
    emitted: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        collector = Collector(self.emitted.names, None)
        for rows in map(_rows, batches):
            collector.collect([_called(self.function, row) for row in rows])
            yield from table_of(collector.drain().rows, self.emitted).to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapRows:
    function: Callable[[Row], Iterable[Row] | None]
    emitted: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        collector = Collector(self.emitted.names, None)
        for rows in map(_rows, batches):
            for row in rows:
                _called(lambda row: collector.collect(self.function(row) or ()), row)
            yield from table_of(collector.drain().rows, self.emitted).to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRows:
    function: Callable[[Row], object]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pa.array([bool(_called(self.function, row)) for row in _rows(batch)], pa.bool_()))


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return dicts(as_held(batch))


def _called(function: Callable[[Row], Any], row: Row) -> Any:
    try:
        return function(row)
    except Exception as raised:
        add_note(raised, f"at row {short_repr(row)}")
        raise
