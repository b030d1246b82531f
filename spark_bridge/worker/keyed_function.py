"""Runs a keyed function over a batch, or over due timers, in a Python worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.worker.function_spec import FunctionSpec
from flykka.spark_bridge.worker.keys import key_columns
from flykka.spark_bridge.worker.listed_state import as_lists, as_table
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessKeyedRows:
    """Calls the function for every row of a batch, ordered by position, and by arrival within a key."""

    spec: FunctionSpec
    watermark_ms: int
    processing_time_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        columns, read = as_lists(state), self.spec.inputs.read(batch.rows)
        with self.spec.running(KeyedFunctionRunner) as runner:
            emitted = runner.process(
                read.slots(batch.key_of_row()),
                _keys(batch.keys),
                read.rows,
                read.timestamps,
                columns,
                inputs=read.inputs,
                watermark_ms=self.watermark_ms,
                processing_time_ms=self.processing_time_ms,
            )
        return _processed(self.spec, [emitted], columns, state.schema, runner)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimers:
    """Calls the function for every due timer of some keys and, in event time, with the watermark."""

    spec: FunctionSpec
    domain: TimeDomain
    watermark_ms: int
    processing_time_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        columns = as_lists(state)
        times = {"watermark_ms": self.watermark_ms, "processing_time_ms": self.processing_time_ms}
        with self.spec.running(KeyedFunctionRunner) as runner:
            emitted = [runner.fire(self.domain, _keys(batch.keys), columns, **times)]
            if self.spec.sees_watermarks and self.domain is TimeDomain.EVENT_TIME:
                emitted.append(runner.process_watermark(**times))
        return _processed(self.spec, emitted, columns, state.schema, runner)


def _processed(
    spec: FunctionSpec,
    parts: Sequence[Emitted],
    columns: StateColumns,
    schema: pa.Schema,
    runner: KeyedFunctionRunner,
) -> Processed:
    slots = sorted(columns.changed)
    return Processed(
        rows=spec.table(parts),
        state=as_table(columns, slots, schema),
        changed=np.array(slots, dtype=np.int64),
        deleted=np.array([columns.is_empty(slot) for slot in slots], dtype=np.bool_),
        side={**spec.side_rows(parts), **spec.state_rows(runner)},
    )


def _keys(keys: pa.Table) -> list[Any]:
    listed = [keys.column(name).to_pylist() for name in key_columns(keys)]
    return listed[0] if len(listed) == 1 else list(zip(*listed, strict=True))
