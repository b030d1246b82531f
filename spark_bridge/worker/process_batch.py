"""Processes a batch of keyed rows in a Python worker: state is looked up, the batch processed, state written.

One call of `mapInArrow` sees all rows of the batch. It emits what the processing emits, and a last row that says in
`CONTROL` what was written, where all other columns are null. So they are in a row of a side output, but for its one
column, which holds the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keyed_batch import KeyedBatch
from flykka.spark_bridge.worker.keys import Mask, Rows, key_columns
from flykka.spark_bridge.worker.look_up import look_up
from flykka.spark_bridge.worker.outputs import emitted_batches
from flykka.spark_bridge.worker.segment_file import (
    IS_DELETED,
    POSITION,
    VERSION,
    Run,
    Segment,
    state_columns,
    with_keys_as_in,
)
from flykka.spark_bridge.worker.segment_folder import SegmentFolder
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE, written
from flykka.spark_bridge.worker.time_columns import as_held


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """The results of a batch: rows to emit, and the state of the keys that have `changed`, by their numbers.

    None means all of them. State of keys that are `deleted` among these is deleted. Rows of side outputs are `side`, as
    structs by the names of their columns. `late_rows` rows of the batch were dropped, for they came too late.
    """

    rows: pa.Table
    state: pa.Table
    changed: Rows | None = None
    deleted: Mask | None = None
    side: Mapping[str, pa.StructArray] = field(default_factory=dict)
    late_rows: int = 0


class BatchFunction(Protocol):
    """Processes a batch with the state of its keys: a row for each of them, with nulls where it has none."""

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Process a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBatch:
    """Processes a batch with the state in `segments`, named from the oldest to the newest, and writes the next one."""

    folder: SegmentFolder
    segments: tuple[str, ...]
    target: str
    version: int
    schema: pa.Schema
    function: BatchFunction

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = [batch for batch in batches if batch.num_rows]
        if arrived:
            yield from self._processed(
                with_keys_as_in(self.schema, as_held(pa.Table.from_batches(arrived))), self._read()
            )

    def _read(self) -> list[Segment]:
        return self.folder.read(self.segments)

    def _processed(self, rows: pa.Table, segments: list[Segment]) -> Iterator[pa.RecordBatch]:
        batch = KeyedBatch(rows)
        processed = self.function.process(batch, look_up(reversed(segments), batch.keys, state_columns(self.schema)))
        numbers = [*self._written(batch, processed), self._next_timer(segments), processed.late_rows]
        told = pa.array([numbers], CONTROL_TYPE)
        yield from emitted_batches(processed.rows, {**processed.side, CONTROL: told})

    def _next_timer(self, segments: list[Segment]) -> int | None:
        return None

    def _written(self, batch: KeyedBatch, processed: Processed) -> tuple[int | None, ...]:
        state, changed = processed.state, processed.changed
        keys = batch.keys if changed is None else batch.keys.take(changed)
        deleted = np.zeros(keys.num_rows, dtype=np.bool_) if processed.deleted is None else processed.deleted
        versions = np.full(keys.num_rows, self.version)
        segment = pa.Table.from_arrays(
            [*keys.columns, *state.columns, pa.array(versions), pa.array(deleted)],
            names=[*keys.column_names, *state.column_names, VERSION, IS_DELETED],
        )
        told = written(self.folder, self.target, [segment], self.schema)
        self.folder.forget_all_but((*self.segments, self.target))
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDueKeys(ProcessBatch):
    """Processes the keys that may have timers to fire, instead of rows that come.

    The first timer of a key is in the column `timer`. Timers up to `after_ms` have fired, but for those that were
    registered by a version later than `after_version`.
    """

    timer: str
    due_ms: int
    after_ms: int
    after_version: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            segments = self._read()
            due = [self._due(run) for segment in segments for run in segment]
            yield from self._processed(pa.concat_tables([self._keys(self.schema.empty_table()), *due]), segments)

    def _keys(self, rows: pa.Table) -> pa.Table:
        return rows.select([POSITION, *key_columns(rows)])

    def _due(self, run: Run) -> pa.Table:
        timer, version = pc.field(self.timer), pc.field(VERSION)
        is_due = (timer <= self.due_ms) & ((timer > self.after_ms) | (version > self.after_version))
        return self._keys(run.table.select([POSITION, *key_columns(run.table), self.timer, VERSION]).filter(is_due))

    def _next_timer(self, segments: list[Segment]) -> int | None:
        """The first timer in these segments that is not due; or one that was deleted since."""
        timers = (run.table.column(self.timer) for segment in segments for run in segment)
        later = (pc.min(each.filter(pc.greater(each, self.due_ms))).as_py() for each in timers)
        return min((timer for timer in later if timer is not None), default=None)
