"""Segments of keyed state as files: a row for each key, sorted by position, mapped into memory (Arrow's IPC format).

The position of a key is its key group and a part of its hash, so that a range of key groups is a stretch of the file.
Keys may share a position: it finds a row, and the key itself says whether it is the one. A file consists of runs of
rows, each sorted and behind the run before it, and is written under another name until it is whole.
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
"""The column of positions, which are not negative."""

VERSION = "__version"
"""The column that says of two rows of one key which is the newer: the one where it is greater."""

IS_DELETED = "__deleted"
"""True where the newest row of a key says that it has no state any more."""

NEXT_EVENT_TIMER = "__next_event_timer"
NEXT_PROCESSING_TIMER = "__next_processing_timer"
"""The columns of the first timers of a key, in ms, where keys have timers."""

RUN_ROWS = 1 << 20

UNFINISHED = ".unfinished"
"""The end of the name of a file that is not whole yet."""

_LAST = np.iinfo(np.int64).max


class Run:
    """Rows of a segment, sorted by position."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        """`batch` has at least one row."""
        self.table = pa.Table.from_batches([batch])
        self.positions: Rows = batch.column(POSITION).to_numpy()

    @property
    def first(self) -> int:
        return int(self.positions[0])

    @property
    def last(self) -> int:
        return int(self.positions[-1])

    def between(self, first: int, before: int) -> pa.Table:
        """The rows of positions from `first` and before `before`, uncopied."""
        start, end = np.searchsorted(self.positions, (first, before))
        return self.table.slice(int(start), int(end - start))


Segment = Sequence[Run]


def state_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a segment that are state: all but the position, the keys, and what is noted of a row."""
    own = {POSITION, VERSION, IS_DELETED}
    return pa.schema([field for field in schema if field.name not in own and not field.name.startswith(KEY_PREFIX)])


def with_keys_as_in(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """The table with the types of `schema` in the position and the keys; its other columns may be named as states."""
    of_key = {POSITION, *key_columns(table)}
    fields = [schema.field(field.name) if field.name in of_key else field for field in table.schema]
    return table.cast(pa.schema(fields))


def read_segment(path: Path) -> Segment:
    """Map a file into memory. Raises `FileNotFoundError`."""
    reader = ipc.open_file(pa.memory_map(str(path)))
    batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    return tuple(Run(batch) for batch in batches if batch.num_rows)


def write_segment(
    path: Path, schema: pa.Schema, tables: Iterable[pa.Table], finish: Callable[[Path], object] = lambda whole: None
) -> int:
    """Write rows that are sorted already, and return their number. Of none there is no file.

    The whole file is given to `finish` before it takes its name.
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
    """A path to write to, until the file is whole and may take its name; what was not renamed is deleted.

    Spark may compute a task twice at a time: each writes a file of its own, and the two are the same.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        yield made
    finally:
        made.unlink(missing_ok=True)


CleanUp = Callable[[pa.Table], pa.Table]
"""Removes from rows, in place of which it returns others, the state that nobody needs any more."""


def merged(
    segments: Sequence[Segment], *, drops_deleted: bool = False, clean_up: CleanUp | None = None
) -> Iterator[pa.Table]:
    """The newest row of each key, stretch by stretch, of segments from the oldest to the newest.

    With `drops_deleted` keys without state are left out, which may be done where no older segment is left.
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
    """The newest row of each key, sorted by position."""
    positions = rows.column(POSITION).to_numpy()
    versions = rows.column(VERSION).to_numpy()
    # Rows that come from the oldest to the newest need not be sorted by version too.
    order = np.argsort(positions, kind="stable")
    sorted_positions, sorted_versions = positions[order], versions[order]
    alike = sorted_positions[1:] == sorted_positions[:-1]
    if np.any(alike & (sorted_versions[1:] < sorted_versions[:-1])):
        order = np.lexsort((versions, positions))
    table, is_first = sorted_by_key(rows, positions, order)
    is_last = np.ones(len(is_first), dtype=np.bool_)
    is_last[:-1] = is_first[1:]
    return table if is_last.all() else table.filter(pa.array(is_last))
