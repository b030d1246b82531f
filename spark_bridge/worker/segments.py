"""The segments of a state: their folders on executors, and how they are merged, saved and loaded, in `mapInArrow`.

Segments are on the disk of each executor and, if there are several executors, in a shared folder. A segment of another
executor is copied from the shared folder and then stored with the executor's own segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from glob import escape
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from pyspark import SparkFiles

from flykka.actors.checkpoint_storage.file_digests import (
    DigestedFile,
    folders_within,
    sync_folders,
    verify_file,
    verify_names,
)
from flykka.actors.checkpoint_storage.private_files import make_inheriting_folder, restrict
from flykka.actors.errors import CheckpointFormatError
from flykka.messages.state.handles import FileDigest
from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.spark_bridge.worker.segment_file import (
    NEXT_EVENT_TIMER,
    NEXT_PROCESSING_TIMER,
    POSITION,
    RUN_ROWS,
    UNFINISHED,
    VERSION,
    CleanUp,
    Segment,
    merged,
    read_segment,
    unfinished,
    write_segment,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFolder:
    """The executor's folder `name`, which is deleted with the executor, and the `shared` folder (None: one machine).

    Raises `OSError` if the shared folder cannot be used.
    """

    name: str
    shared: str | None = None

    def path(self, segment: str) -> Path:
        return Path(SparkFiles.getRootDirectory()) / self.name / segment

    def read(self, segments: Sequence[str]) -> list[Segment]:
        for segment in segments:
            if self.shared is not None and not self.path(segment).exists():
                self._fetch(segment)
        return [read_segment(self.path(segment)) for segment in segments]

    def has(self, segment: str) -> bool:
        """Return True if executors can read a segment, because it is on this machine or in the shared folder."""
        if self.shared is not None:
            filesystem, folder = url_to_fs(self.shared)
            return bool(filesystem.exists(f"{folder}/{segment}"))
        try:
            read_segment(self.path(segment))
        except (OSError, pa.ArrowInvalid):
            return False
        return True

    def write(self, segment: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
        """Write sorted rows, and return their number. Without rows no segment is written.

        The shared copy is written first. Once the executor's copy exists, a batch that does not read the segment may
        delete it.
        """

        def share(whole: Path) -> None:
            if self.shared is not None:
                filesystem, folder = url_to_fs(self.shared)
                make_inheriting_folder(filesystem, folder)
                filesystem.put_file(str(whole), f"{folder}/{segment}")
                restrict(filesystem, f"{folder}/{segment}")

        return write_segment(self.path(segment), schema, tables, share)

    def forget_all_but(self, segments: Sequence[str]) -> None:
        """Delete this executor's copies of all other segments, which are not read any more."""
        live = {self.path(segment) for segment in segments}
        for path in self.path("").iterdir() if self.shared is not None else ():
            if path not in live and path.suffix != UNFINISHED:
                path.unlink(missing_ok=True)

    def delete(self, segment: str) -> None:
        self.path(segment).unlink(missing_ok=True)
        if self.shared is not None:
            filesystem, folder = url_to_fs(self.shared)
            # The folder may have been deleted when its job ended.
            with suppress(FileNotFoundError):
                filesystem.rm_file(f"{folder}/{segment}")

    def _fetch(self, segment: str) -> None:
        filesystem, folder = url_to_fs(self.shared)
        path = self.path(segment)
        with unfinished(path) as file:
            filesystem.get_file(f"{folder}/{segment}", str(file))
            file.replace(path)


_ROWS = "rows.parquet"

CONTROL = "__control"
"""The column that reports a written segment: rows, greatest version, first event-time and processing-time timers."""

CONTROL_TYPE = pa.list_(pa.int64())

SAVED = "place long, rows long, name string, size_bytes long, digest binary"
"""The columns that report a saved file: the index of its address or the subtask, and the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSegments:
    """Merges segments, which are named from the oldest to the newest, into one segment."""

    folder: SegmentFolder
    names: tuple[str, ...]
    target: str
    schema: pa.Schema
    drops_deleted: bool
    clean_up: CleanUp | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            segments = self.folder.read(self.names)
            tables = merged(segments, drops_deleted=self.drops_deleted, clean_up=self.clean_up)
            yield _row(*written(self.folder, self.target, tables, self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveSegments:
    """Writes the newest row of each key from segments to an address. `saved` are addresses with their segments.

    The segments are named from the oldest to the newest. When a file is reported, it is durable, with its folders below
    `within`; if `within` is None, nothing is synced.
    """

    folder: SegmentFolder
    saved: tuple[tuple[str, tuple[str, ...]], ...]
    schema: pa.Schema
    within: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the files, for a single input row. Yield the saved files."""
        for _ in batches:
            yield from self.written()

    def written(self) -> list[pa.RecordBatch]:
        """Write a parquet file to each address, and return the saved files."""
        saved = [
            _saved(place, address, self.schema, merged(self.folder.read(names)), sync=self.within is not None)
            for place, (address, names) in enumerate(self.saved)
        ]
        _sync_names([address for address, _ in self.saved], self.within)
        return saved


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRows:
    """Writes rows of state, sorted by position, into a folder below an address for each subtask that owns rows.

    All rows of a subtask, whose index is in `subtask_column`, are in one Spark partition. When a file is reported, it
    is durable, with its folders below `within`.
    """

    address: str
    schema: pa.Schema
    subtask_column: str
    within: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of_subtask = groupby(_by_subtask(batches, self.subtask_column), key=itemgetter(0))
        for subtask, parts in of_subtask:
            address = f"{self.address}/{subtask}"
            tables = (table.select(self.schema.names).cast(self.schema) for _, table in parts)
            saved = _saved(subtask, address, self.schema, tables, sync=True)
            _sync_names([address], self.within)
            yield saved


def _saved(place: int, address: str, schema: pa.Schema, tables: Iterable[pa.Table], *, sync: bool) -> pa.RecordBatch:
    """Write rows as the only file of an address. Return a row with the columns `SAVED`."""
    filesystem, folder = url_to_fs(address)
    make_inheriting_folder(filesystem, folder)
    rows = 0
    with filesystem.open(f"{folder}/{_ROWS}", "wb") as opened:
        file = DigestedFile(opened)
        with _parquet_writer(file, schema) as writer:
            for table in tables:
                rows += table.num_rows
                writer.write_table(table)
        sealed = file.sealed(_ROWS, sync=sync)
    restrict(filesystem, f"{folder}/{_ROWS}")
    columns = {
        "place": pa.array([place], pa.int64()),
        "rows": pa.array([rows], pa.int64()),
        "name": pa.array([sealed.name], pa.string()),
        "size_bytes": pa.array([sealed.size_bytes], pa.int64()),
        "digest": pa.array([sealed.digest], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _sync_names(addresses: Sequence[str], within: str | None) -> None:
    if within is not None:
        sync_folders(folders_within((f"{address}/{_ROWS}" for address in addresses), within))


def _by_subtask(batches: Iterator[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.Table]]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        subtasks = table.column(column).to_numpy()
        starts = [0, *(np.flatnonzero(subtasks[1:] != subtasks[:-1]) + 1), table.num_rows]
        for start, end in pairwise(starts):
            if start < end:
                yield int(subtasks[start]), table.slice(start, end - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRows:
    """Rows at an address in a checkpoint, restricted to a range of positions (None: all).

    `stored_columns` maps current columns to columns of rows with an older schema, or to None if they are new. `files`
    are all files of the address; empty if no digests were written. `rows` is the number of written rows, None if
    unknown.
    """

    address: str
    between: tuple[int, int] | None = None
    stored_columns: Mapping[str, str | None] = field(default_factory=dict)
    files: tuple[FileDigest, ...] = ()
    rows: int | None = None

    def read(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Return the rows with the columns of `schema`, which are null if they were not saved.

        Raises:
            CheckpointFormatError, CheckpointStateMissingError: a file is damaged or missing, or rows are missing.
        """
        filesystem, path = url_to_fs(self.address)
        if self.files:
            verify_names(self.address, self.files)
        there = 0
        for name in sorted(filesystem.glob(f"{escape(path)}/*.parquet")):
            with _verified(filesystem, name, self._digest(path, name)) as opened:
                file = pq.ParquetFile(opened)
                there += file.metadata.num_rows
                for batch in file.iter_batches(batch_size=RUN_ROWS):
                    table = pa.Table.from_batches([batch])
                    if self.between is not None:
                        position = pc.field(POSITION)
                        table = table.filter((position >= self.between[0]) & (position <= self.between[1]))
                    yield self._in_schema(table, schema)
        if self.rows is not None and there != self.rows:
            raise CheckpointFormatError(f"{path} is damaged: {self.rows} rows were written, but it has {there}")

    def _digest(self, path: str, name: str) -> FileDigest | None:
        return next((file for file in self.files if f"{path}/{file.name}" == name), None)

    def _in_schema(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        columns: list[pa.ChunkedArray] = []
        for field_ in schema:
            column = self.stored_columns.get(field_.name, field_.name)
            is_there = column in table.column_names
            columns.append(
                table.column(column).cast(field_.type) if is_there else pa.nulls(table.num_rows, field_.type)
            )
        return pa.Table.from_arrays(columns, schema=schema)


@contextmanager
def _verified(filesystem: AbstractFileSystem, path: str, written: FileDigest | None) -> Iterator[IO[bytes]]:
    """Open a file after comparing its bytes with its digest. An object is downloaded only once for both."""
    if written is None:
        with filesystem.open(path, "rb") as file:
            yield file
        return
    with ExitStack() as stack:
        if isinstance(filesystem, LocalFileSystem):
            here = path
        else:
            here = str(stack.enter_context(TemporaryFolder("state")) / _ROWS)
            filesystem.get_file(path, here)
        verify_file(here, written, shown=path)
        yield stack.enter_context(open(here, "rb"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSegments:
    folder: SegmentFolder
    saved: tuple[SavedRows, ...]
    target: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Load the rows, for a single input row. Report the written segment."""
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


def _parquet_writer(file: DigestedFile, schema: pa.Schema) -> pq.ParquetWriter:
    """Create a writer that is as fast as possible: all rows are read again, and values in a column rarely repeat."""
    return pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False, write_statistics=False)


def written(
    folder: SegmentFolder, target: str, tables: Iterable[pa.Table], schema: pa.Schema
) -> tuple[int, int, int | None, int | None]:
    """Write a segment. Return its row count, greatest version, and first event-time and processing-time timers."""
    versions: list[int] = []
    timers: dict[str, list[int]] = {NEXT_EVENT_TIMER: [], NEXT_PROCESSING_TIMER: []}

    def observed() -> Iterator[pa.Table]:
        for table in tables:
            if table.num_rows:
                versions.append(pc.max(table.column(VERSION)).as_py())
                for name in timers.keys() & set(table.column_names):
                    if (first := pc.min(table.column(name)).as_py()) is not None:
                        timers[name].append(first)
            yield table

    rows = folder.write(target, schema, observed())
    first_event, first_processing = (min(each, default=None) for each in timers.values())
    return rows, max(versions, default=0), first_event, first_processing


def _row(*numbers: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([numbers], CONTROL_TYPE)], names=[CONTROL])
