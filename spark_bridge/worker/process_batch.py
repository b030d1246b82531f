"""Processes a batch of keyed rows in a Python worker: looks up state, processes the batch, and writes state.

One call of `mapInArrow` receives all rows of the batch. It yields the results, and a last row that reports the written
segment in `CONTROL`; all other columns of this row are null. A row of a side output is null in all but one column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import Mask, Rows, key_columns, same_rows, sorted_by_key
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
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE, SegmentFolder, written
from flykka.spark_bridge.worker.time_columns import as_held


def look_up(segments: Iterable[Segment], keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the state of each key, as rows of `schema`; nulls for a key without state.

    `segments` are ordered from the newest to the oldest. `keys` have positions and are sorted by position.
    """
    positions: Rows = keys.column(POSITION).to_numpy()
    missing = np.arange(keys.num_rows)
    found_keys: list[Rows] = []
    parts: list[pa.Table] = []
    for segment in segments:
        for run in segment:
            start, end = np.searchsorted(positions[missing], (run.first, run.last + 1))
            hits, rows = _in_run(run, keys, missing[start:end])
            if len(hits):
                found_keys.append(hits)
                parts.append(run.table.select([*schema.names, IS_DELETED]).take(rows))
                is_missing = np.ones(len(missing), dtype=np.bool_)
                is_missing[np.searchsorted(missing, hits)] = False
                missing = missing[is_missing]
    return _in_order_of_keys(keys.num_rows, found_keys, parts, schema)


def _in_run(run: Run, keys: pa.Table, numbers: Rows) -> tuple[Rows, Rows]:
    positions: Rows = keys.column(POSITION).to_numpy()[numbers]
    rows: Rows = np.searchsorted(run.positions, positions)
    hit = np.flatnonzero(run.positions[np.minimum(rows, len(run.positions) - 1)] == positions)
    numbers, rows = numbers[hit], rows[hit]
    names = key_columns(keys)
    same = same_rows(keys.select(names).take(numbers), run.table.select(names).take(rows))
    if same.all():
        return numbers, rows
    for place in np.flatnonzero(~same):
        rows[place] = _among_others(run, keys.select(names).slice(int(numbers[place]), 1), int(rows[place]))
    return numbers[rows >= 0], rows[rows >= 0]


def _among_others(run: Run, key: pa.Table, row: int) -> int:
    """Return the index of a key's row after a row of another key at the same position; -1 if there is none."""
    position = run.positions[row]
    keys = run.table.select(key.column_names)
    while row < len(run.positions) and run.positions[row] == position:
        if same_rows(key, keys.slice(row, 1)).all():
            return row
        row += 1
    return -1


def _in_order_of_keys(
    number: int, found_keys: Sequence[Rows], parts: Sequence[pa.Table], schema: pa.Schema
) -> pa.Table:
    if not parts:
        return pa.Table.from_arrays([pa.nulls(number, field.type) for field in schema], schema=schema)
    table = pa.concat_tables(parts).combine_chunks()
    is_live = ~table.column(IS_DELETED).to_numpy()
    rows = np.full(number, -1)
    rows[np.concatenate(found_keys)[is_live]] = np.flatnonzero(is_live)
    return table.select(schema.names).take(pa.array(rows, mask=rows < 0))


class KeyedBatch:
    """Rows sorted by position and key, and the first row of each key."""

    def __init__(self, rows: pa.Table) -> None:
        """Sort `rows`, which have positions and keys besides their own columns. The rows of a key keep their order."""
        rows = rows.combine_chunks()
        positions = rows.column(POSITION).to_numpy()
        self.rows, is_first = sorted_by_key(rows, positions, np.argsort(positions, kind="stable"))
        self.starts: Rows = np.flatnonzero(is_first)
        firsts = self.rows if len(self.starts) == self.rows.num_rows else self.rows.take(self.starts)
        self.keys = firsts.select([POSITION, *key_columns(rows)])
        self.positions: Rows = self.keys.column(POSITION).to_numpy()

    def key_of_row(self) -> Rows:
        counts = np.diff(np.append(self.starts, self.rows.num_rows))
        return np.repeat(np.arange(len(self.starts)), counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """The results of a batch: rows to emit, and the state of the keys that have `changed`, by key number (None: of all
    keys).

    The state of the `deleted` keys among these is deleted. `side` contains the rows of side outputs, as structs by
    column. `late_rows` rows of the batch were dropped as late.
    """

    rows: pa.Table
    state: pa.Table
    changed: Rows | None = None
    deleted: Mask | None = None
    side: Mapping[str, pa.StructArray] = field(default_factory=dict)
    late_rows: int = 0


class BatchFunction(Protocol):
    """Processes a batch with the state of its keys: one row for each key, with nulls for a key without state."""

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedWork(ABC):
    """Processes a batch with the state in `segments`, named from oldest to newest, and writes the next segment."""

    folder: SegmentFolder
    segments: tuple[str, ...]
    target: str
    version: int
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = [batch for batch in batches if batch.num_rows]
        if arrived:
            yield from self._processed(
                with_keys_as_in(self.schema, as_held(pa.Table.from_batches(arrived))), self.folder.read(self.segments)
            )

    @abstractmethod
    def _processed(self, rows: pa.Table, segments: list[Segment]) -> Iterator[pa.RecordBatch]: ...

    def _written(self, batch: KeyedBatch, processed: Processed) -> tuple[int | None, ...]:
        state, changed = processed.state, processed.changed
        keys = batch.keys if changed is None else batch.keys.take(changed)
        deleted = np.zeros(keys.num_rows, dtype=np.bool_) if processed.deleted is None else processed.deleted
        versions = np.full(keys.num_rows, self.version)
        segment = pa.Table.from_arrays(
            [*keys.columns, *state.columns, pa.array(versions), pa.array(deleted)],
            names=[*keys.column_names, *state.column_names, VERSION, IS_DELETED],
        )
        report = written(self.folder, self.target, [segment], self.schema)
        self.folder.forget_all_but((*self.segments, self.target))
        return report


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessKeyedBatch(KeyedWork):
    function: BatchFunction

    def _processed(self, rows: pa.Table, segments: list[Segment]) -> Iterator[pa.RecordBatch]:
        batch = KeyedBatch(rows)
        processed = self.function.process(batch, look_up(reversed(segments), batch.keys, state_columns(self.schema)))
        numbers = [*self._written(batch, processed), self._next_timer(segments), processed.late_rows]
        control = pa.array([numbers], CONTROL_TYPE)
        yield from emitted_batches(processed.rows, {**processed.side, CONTROL: control})

    def _next_timer(self, segments: list[Segment]) -> int | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDueKeys(ProcessKeyedBatch):
    """Processes the keys that may have timers to fire, without input rows.

    The column `timer` contains the next timer of a key. Timers up to `after_ms` have fired before, except timers
    registered by a version later than `after_version`.
    """

    timer: str
    due_ms: int
    after_ms: int
    after_version: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            segments = self.folder.read(self.segments)
            due = [self._due(run) for segment in segments for run in segment]
            yield from self._processed(pa.concat_tables([self._keys(self.schema.empty_table()), *due]), segments)

    def _keys(self, rows: pa.Table) -> pa.Table:
        return rows.select([POSITION, *key_columns(rows)])

    def _due(self, run: Run) -> pa.Table:
        timer, version = pc.field(self.timer), pc.field(VERSION)
        is_due = (timer <= self.due_ms) & ((timer > self.after_ms) | (version > self.after_version))
        return self._keys(run.table.select([POSITION, *key_columns(run.table), self.timer, VERSION]).filter(is_due))

    def _next_timer(self, segments: list[Segment]) -> int | None:
        """Return the earliest timer in these segments that is not due (possibly deleted); None if there is none."""
        timers = (run.table.column(self.timer) for segment in segments for run in segment)
        later = (pc.min(each.filter(pc.greater(each, self.due_ms))).as_py() for each in timers)
        return min((timer for timer in later if timer is not None), default=None)
