"""Processes a batch of keyed rows in a Python worker: state is looked up, the batch processed, state written.

One call of `mapInArrow` sees all rows of the batch. It emits what the processing emits, and a last row that says in
`CONTROL` what was written, where all other columns are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.worker.keyed_batch import KeyedBatch
from flykka.spark_bridge.worker.keys import Mask
from flykka.spark_bridge.worker.look_up import look_up
from flykka.spark_bridge.worker.segment_file import IS_DELETED, VERSION, as_in, state_columns, write_segment
from flykka.spark_bridge.worker.segment_folder import SegmentFolder
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """The results of a batch: rows to emit, and the state of its keys, in their order.

    Only `changed` state is written (None: all of it); that of `deleted` keys is deleted.
    """

    rows: pa.Table
    state: pa.Table
    changed: Mask | None = None
    deleted: Mask | None = None


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
        """Process all rows as one batch."""
        arrived = [batch for batch in batches if batch.num_rows]
        if not arrived:
            return
        batch = KeyedBatch(as_in(self.schema, pa.Table.from_batches(arrived)))
        state = look_up(reversed(self.folder.read(self.segments)), batch.keys, state_columns(self.schema))
        processed = self.function.process(batch, state)
        rows, written = processed.rows, self._written(batch, processed)
        yield from rows.append_column(CONTROL, pa.nulls(rows.num_rows, CONTROL_TYPE)).to_batches()
        nulls = [pa.nulls(1, field.type) for field in rows.schema]
        told = pa.array([[written, self.version]], CONTROL_TYPE)
        yield pa.RecordBatch.from_arrays([*nulls, told], names=[*rows.column_names, CONTROL])

    def _written(self, batch: KeyedBatch, processed: Processed) -> int:
        number = batch.keys.num_rows
        deleted = np.zeros(number, dtype=np.bool_) if processed.deleted is None else processed.deleted
        state = processed.state
        segment = pa.Table.from_arrays(
            [*batch.keys.columns, *state.columns, pa.array(np.full(number, self.version)), pa.array(deleted)],
            names=[*batch.keys.column_names, *state.column_names, VERSION, IS_DELETED],
        )
        if processed.changed is not None:
            segment = segment.filter(pa.array(processed.changed))
        rows = write_segment(self.folder.path(self.target), self.schema, [segment])
        self.folder.share(self.target)
        self.folder.forget_all_but((*self.segments, self.target))
        return rows
