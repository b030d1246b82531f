"""Work on the segments of a state by themselves: they are merged, saved and loaded. Each is for `mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.core import url_to_fs

from flykka.actors.checkpoint_storage.private_files import make_inheriting_folder, restrict
from flykka.spark_bridge.worker.segment_file import (
    NEXT_EVENT_TIMER,
    NEXT_PROCESSING_TIMER,
    POSITION,
    RUN_ROWS,
    VERSION,
    CleanUp,
    merged,
    read_segment,
    write_segment,
)
from flykka.spark_bridge.worker.segment_folder import SegmentFolder

CONTROL = "__control"
"""The column of what was written: rows, greatest version and first timers of a new segment, by both times."""

CONTROL_TYPE = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSegments:
    """Merges segments, named from the oldest to the newest, into one."""

    folder: SegmentFolder
    names: tuple[str, ...]
    target: str
    schema: pa.Schema
    drops_deleted: bool
    clean_up: CleanUp | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge them, for a single row; what was written."""
        for _ in batches:
            segments = self.folder.read(self.names)
            tables = merged(segments, drops_deleted=self.drops_deleted, clean_up=self.clean_up)
            yield _row(*written(self.folder, self.target, tables, self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveSegments:
    """Writes the newest row of each key from segments to an address; `saved` are addresses with segments.

    These are named from the oldest to the newest.
    """

    folder: SegmentFolder
    saved: tuple[tuple[str, tuple[str, ...]], ...]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a parquet file to each address, for a single row; the numbers of rows and bytes of each."""
        for _ in batches:
            for address, names in self.saved:
                yield self._written(address, names)

    def _written(self, address: str, names: tuple[str, ...]) -> pa.RecordBatch:
        filesystem, folder = url_to_fs(address)
        make_inheriting_folder(filesystem, folder)
        path, rows = f"{folder}/rows.parquet", 0
        with (
            filesystem.open(path, "wb") as file,
            _parquet_writer(file, self.schema) as writer,
        ):
            for table in merged(self.folder.read(names)):
                rows += table.num_rows
                writer.write_table(table)
        restrict(filesystem, path)
        return _row(rows, filesystem.size(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRows:
    """Writes rows of state, sorted by position, below an address: into a folder for each subtask that owns some.

    All rows of a subtask, whose number is in `subtask_column`, lie in one Spark partition.
    """

    address: str
    schema: pa.Schema
    subtask_column: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write them; the subtask and the numbers of rows and bytes of each folder."""
        filesystem, root = url_to_fs(self.address)
        of_subtask = groupby(_by_subtask(batches, self.subtask_column), key=itemgetter(0))
        for subtask, tables in of_subtask:
            make_inheriting_folder(filesystem, f"{root}/{subtask}")
            path, rows = f"{root}/{subtask}/rows.parquet", 0
            with (
                filesystem.open(path, "wb") as file,
                _parquet_writer(file, self.schema) as writer,
            ):
                for _, table in tables:
                    rows += table.num_rows
                    writer.write_table(table.select(self.schema.names).cast(self.schema))
            restrict(filesystem, path)
            yield _row(subtask, rows, filesystem.size(path))


def _by_subtask(batches: Iterator[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.Table]]:
    """Cut batches where another subtask begins."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        subtasks = table.column(column).to_numpy()
        starts = [0, *(np.flatnonzero(subtasks[1:] != subtasks[:-1]) + 1), table.num_rows]
        for start, end in pairwise(starts):
            if start < end:
                yield int(subtasks[start]), table.slice(start, end - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRows:
    """Rows at an address in a checkpoint, of the positions in a range (None: all).

    `moved` says of columns of today where they lie in rows of an older schema; None: they are new.
    """

    address: str
    between: tuple[int, int] | None = None
    moved: Mapping[str, str | None] = field(default_factory=dict)

    def read(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The rows with the columns of `schema`: null in those that were not saved."""
        filesystem, path = url_to_fs(self.address)
        for name in sorted(filesystem.glob(f"{path}/*.parquet")):
            with filesystem.open(name, "rb") as file:
                for batch in pq.ParquetFile(file).iter_batches(batch_size=RUN_ROWS):
                    table = pa.Table.from_batches([batch])
                    if self.between is not None:
                        position = pc.field(POSITION)
                        table = table.filter((position >= self.between[0]) & (position <= self.between[1]))
                    yield self._in_schema(table, schema)

    def _in_schema(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        columns: list[pa.ChunkedArray] = []
        for wanted in schema:
            column = self.moved.get(wanted.name, wanted.name)
            is_there = column in table.column_names
            columns.append(
                table.column(column).cast(wanted.type) if is_there else pa.nulls(table.num_rows, wanted.type)
            )
        return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSegments:
    """Makes one segment of saved rows."""

    folder: SegmentFolder
    saved: tuple[SavedRows, ...]
    target: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Load them, for a single row; what was written."""
        for _ in batches:
            loaded: list[Path] = []
            try:
                for number, saved in enumerate(self.saved):
                    path = self.folder.path(f"{self.target}.{number}")
                    if write_segment(path, self.schema, saved.read(self.schema)):
                        loaded.append(path)
                segments = [read_segment(path) for path in loaded]
                yield _row(*written(self.folder, self.target, merged(segments), self.schema))
            finally:
                for path in loaded:
                    path.unlink()


def _parquet_writer(file: IO[bytes], schema: pa.Schema) -> pq.ParquetWriter:
    """Write as fast as parquet can be: all rows are read again, and hardly any value comes twice in a column."""
    return pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False, write_statistics=False)


def written(
    folder: SegmentFolder, target: str, tables: Iterable[pa.Table], schema: pa.Schema
) -> tuple[int, int, int | None, int | None]:
    """Write a segment; its rows, greatest version, and first event-time and processing-time timers."""
    versions: list[int] = []
    timers: dict[str, list[int]] = {NEXT_EVENT_TIMER: [], NEXT_PROCESSING_TIMER: []}

    def noted() -> Iterator[pa.Table]:
        for table in tables:
            if table.num_rows:
                versions.append(pc.max(table.column(VERSION)).as_py())
                for name in timers.keys() & set(table.column_names):
                    if (first := pc.min(table.column(name)).as_py()) is not None:
                        timers[name].append(first)
            yield table

    rows = folder.write(target, schema, noted())
    first_event, first_processing = (min(each, default=None) for each in timers.values())
    return rows, max(versions, default=0), first_event, first_processing


def _row(*numbers: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([numbers], CONTROL_TYPE)], names=[CONTROL])
