"""Segments of keyed state as files: one row per key, sorted by position, mapped into memory (Arrow's IPC format).

The position of a key consists of its key group and bits of its hash, so the rows of a range of key groups are adjacent
in the file. As keys may share a position, look-ups also compare the key itself. A file consists of consecutive sorted
runs of rows. It has a temporary name until it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from flykka.spark_bridge.worker.keys import KEY_PREFIX, Rows, key_columns, sorted_by_key

POSITION = "__position"
"""The column with positions, which are not negative."""

VERSION = "__version"
"""The column that orders two rows of a key: the row with the greater version is newer."""

IS_DELETED = "__deleted"
"""The column that is true if the key has no state since this row."""

NEXT_EVENT_TIMER = "__next_event_timer"
NEXT_PROCESSING_TIMER = "__next_processing_timer"
"""The columns with the times of a key's next event-time and processing-time timer, in ms; absent without timers."""

RUN_ROWS = 1 << 20

UNFINISHED = ".unfinished"

_LAST = np.iinfo(np.int64).max


class Run:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.table = pa.Table.from_batches([batch])
        self.positions: Rows = batch.column(POSITION).to_numpy()

    @property
    def first(self) -> int:
        return int(self.positions[0])

    @property
    def last(self) -> int:
        return int(self.positions[-1])

    def between(self, first: int, before: int) -> pa.Table:
        """Return the rows with positions from `first` to before `before`, without copying."""
        start, end = np.searchsorted(self.positions, (first, before))
        return self.table.slice(int(start), int(end - start))


Segment = Sequence[Run]


def state_columns(schema: pa.Schema) -> pa.Schema:
    """Return the state columns of a segment: all but position, keys, version and deletion."""
    own = {POSITION, VERSION, IS_DELETED}
    return pa.schema([field for field in schema if field.name not in own and not field.name.startswith(KEY_PREFIX)])


def with_keys_as_in(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Return the table with the types of `schema` for position and keys. Its other columns may be named like states."""
    of_key = {POSITION, *key_columns(table)}
    fields = [schema.field(field.name) if field.name in of_key else field for field in table.schema]
    return table.cast(pa.schema(fields))


def read_segment(path: Path) -> Segment:
    reader = ipc.open_file(pa.memory_map(str(path)))
    batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    return tuple(Run(batch) for batch in batches if batch.num_rows)


def write_segment(
    path: Path, schema: pa.Schema, tables: Iterable[pa.Table], finish: Callable[[Path], object] = lambda whole: None
) -> int:
    """Write sorted rows, and return their number. Without rows no file is written.

    The complete file is passed to `finish` before it is renamed to `path`.
    """
    rows = 0
    with unfinished(path) as whole:
        with pa.OSFile(str(whole), "wb") as file, ipc.new_file(file, schema) as writer:
            for table in tables:
                rows += table.num_rows
                for batch in table.cast(schema).combine_chunks().to_batches(max_chunksize=RUN_ROWS):
                    writer.write_batch(batch)
        if rows:
            finish(whole)
            whole.replace(path)
    return rows


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Yield a temporary path, and delete the file unless the caller has renamed it.

    If Spark runs a task twice concurrently, each run writes its own file, with equal content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


CleanUp = Callable[[pa.Table], pa.Table]
"""A function that returns the rows without state that is no longer needed."""


def merged(
    segments: Sequence[Segment], *, drops_deleted: bool = False, clean_up: CleanUp | None = None
) -> Iterator[pa.Table]:
    """Merge segments, which are ordered from the oldest to the newest. Yield tables with the newest row of each key.

    With `drops_deleted`, keys without state are dropped, which is only correct if there is no older segment.
    """
    if len(segments) == 1 and not drops_deleted and clean_up is None:
        yield from (run.table for run in segments[0])
        return
    longest = max(segments, key=len, default=())
    first = 0
    for before in (*(run.first for run in longest[1:]), _LAST):
        parts = [part for segment in segments for run in segment if (part := run.between(first, before)).num_rows]
        first = before
        if parts:
            table = newest(pa.concat_tables(parts))
            if clean_up is not None:
                table = clean_up(table)
            yield table.filter(pc.invert(table.column(IS_DELETED))) if drops_deleted else table


def newest(rows: pa.Table) -> pa.Table:
    """Return the newest row of each key, sorted by position."""
    positions = rows.column(POSITION).to_numpy()
    versions = rows.column(VERSION).to_numpy()
    # Rows ordered from the oldest to the newest need not be sorted by version.
    order = np.argsort(positions, kind="stable")
    sorted_positions, sorted_versions = positions[order], versions[order]
    alike = sorted_positions[1:] == sorted_positions[:-1]
    if np.any(alike & (sorted_versions[1:] < sorted_versions[:-1])):
        order = np.lexsort((versions, positions))
    table, is_first = sorted_by_key(rows, positions, order)
    is_last = np.ones(len(is_first), dtype=np.bool_)
    is_last[:-1] = is_first[1:]
    return table if is_last.all() else table.filter(pa.array(is_last))
