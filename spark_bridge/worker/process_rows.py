"""Runs a function without keys in a Python worker, or any function for its operator state and events.

The classes are arguments of `mapInArrow`. Calls without input rows run once, for the single row of a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic

import pyarrow as pa

from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.worker.function_spec import FunctionSpec, R
from flykka.spark_bridge.worker.outputs import emitted_batches
from flykka.spark_bridge.worker.time_columns import as_held


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRows:
    spec: FunctionSpec
    watermark_ms: int
    processing_time_ms: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.spec.running(ProcessFunctionRunner) as runner:
            for batch in batches:
                read = self.spec.inputs.read(as_held(pa.Table.from_batches([batch])))
                emitted = runner.process(
                    read.rows,
                    read.timestamps,
                    inputs=read.inputs,
                    watermark_ms=self.watermark_ms,
                    processing_time_ms=self.processing_time_ms,
                )
                yield from _batches(self.spec, emitted)
        if self.spec.operator_state is not None:
            yield from _batches(self.spec, Emitted(), runner)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessWatermark:
    spec: FunctionSpec
    watermark_ms: int
    processing_time_ms: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with self.spec.running(ProcessFunctionRunner) as runner:
                emitted = runner.process_watermark(
                    watermark_ms=self.watermark_ms, processing_time_ms=self.processing_time_ms
                )
            yield from _batches(self.spec, emitted, runner)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleCoordinatorEvents(Generic[R]):
    """Calls the function for events of its coordinator. `report_columns` are columns that only other calls fill."""

    spec: FunctionSpec
    runner: type[R]
    events: tuple[bytes, ...]
    watermark_ms: int
    processing_time_ms: int
    report_columns: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with self.spec.running(self.runner) as runner:
                emitted = runner.handle_operator_events(
                    self.events, watermark_ms=self.watermark_ms, processing_time_ms=self.processing_time_ms
                )
            others = {name: pa.nulls(0, kind) for name, kind in self.report_columns.items()}
            side = {**self.spec.side_rows([emitted]), **self.spec.state_rows(runner), **others}
            yield from emitted_batches(self.spec.table([emitted]), side)


def _batches(spec: FunctionSpec, emitted: Emitted, runner: ProcessFunctionRunner | None = None) -> list[pa.RecordBatch]:
    return emitted_batches(spec.table([emitted]), {**spec.side_rows([emitted]), **spec.state_rows(runner)})


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeState(Generic[R]):
    spec: FunctionSpec
    runner: type[R]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with self.spec.running(self.runner) as runner:
                pass
            yield pa.RecordBatch.from_pydict(dict(self.spec.state_rows(runner)))
