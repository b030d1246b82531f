"""The splits of a FileSource: the files of its folder, or groups of files if the user has set a batch size.

Footers of files are checked before any row is read: a file that lacks a declared column, or has another type for it, is
rejected here.

The id of a split names the files relative to the source's path, percent-encoded, as in `a.parquet+b.parquet`, or the
rows of a file that is divided, as in `a.parquet#500-250` (250 rows from row 500 on). The position of a discovery is the
set of all discovered names, because a new file may have an earlier name or time than known files. If one listing of the
folder has many files, several discoveries return them.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pyspark.sql.types import StructType

from flykka.messages.tasks.source import FileBatchSplit, FileSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.connectors.file.footers import footer, schema_mismatch
from flykka.spark_bridge.connectors.file.formats import merges_schemas
from flykka.spark_bridge.diagnosis.unreadable import plain_path
from flykka.spark_bridge.errors import EmptySourceError, FileSchemaError, SourceError, SourceNotFoundError
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK
from flykka.spark_bridge.rows.file_formats import partition_in

if TYPE_CHECKING:
    from flykka.spark_bridge.connectors.file.object_store import ObjectStore
    from flykka.spark_bridge.connectors.file.source_settings import FileSourceSettings
    from flykka.spark_bridge.rows.filesystem import FileSystem


_TICK_NS = 20_000_000
_PAUSE_NS = 50_000_000


class FolderTimes:
    """The last modification times of local folders, by path. One thread records them, and another checks them.

    They show, without a listing, whether there may be new files. A folder's time changes with every name in it. It is
    recorded before the folder is listed, so that no change is missed. The clock of a file system ticks only some times
    per second, so the second of two changes within a tick is invisible. So a folder that was modified just before its
    time was recorded counts as changed once more, a tick later.

    Such early discoveries would find incomplete files. So a file that is written in place, not renamed, is deferred
    until nothing has been written to it for a moment. Later files are deferred with it, and so are files that arrived
    during the listing, which may lack earlier files: if a file is read before an earlier file, the rows of the earlier
    file are late. A file that was written and renamed within a tick is treated like a file that is being written.
    """

    def __init__(self) -> None:
        self._times: dict[str, int | None] = {}
        self._doubtful_until_ns: int | None = None
        self._started_ns = 0

    def clear(self) -> None:
        self._times, self._doubtful_until_ns = {}, None
        self._started_ns = time.time_ns()

    def record(self, folder: str) -> None:
        now_ns, changed_ns = time.time_ns(), _changed_ns(folder)
        self._times[folder] = changed_ns
        if changed_ns is not None and abs(now_ns - changed_ns) < _TICK_NS:
            self._doubtful_until_ns = now_ns + _TICK_NS

    def settled(self, files: Iterable[str]) -> set[str]:
        """Return the files that may be read now. If some may not be read yet, the folder counts as changed once more, a
        moment later.

        The files must have been found in the folders after the folders' times were recorded.

        Raises:
            OSError: a file does not exist.
        """
        before_ns, statuses, now_ns = time.time_ns(), {file: os.stat(file) for file in files}, time.time_ns()
        # The times differ if the file was renamed or its time was set, which happens after the last write.
        written_ns = (status.st_mtime_ns for status in statuses.values() if status.st_mtime_ns == status.st_ctime_ns)
        doubtful_ns = [each for each in written_ns if before_ns - _PAUSE_NS < each < now_ns + _PAUSE_NS]
        if doubtful_ns:
            self._doubtful_until_ns = now_ns + _PAUSE_NS
        if self._is_changed():
            doubtful_ns.append(self._started_ns - _TICK_NS)
        earliest_ns = min(doubtful_ns, default=None)
        return {file for file, status in statuses.items() if earliest_ns is None or status.st_ctime_ns < earliest_ns}

    def changed(self) -> bool:
        if self._doubtful_until_ns is not None and time.time_ns() > self._doubtful_until_ns:
            return True
        return self._is_changed()

    def _is_changed(self) -> bool:
        return any(_changed_ns(folder) != recorded for folder, recorded in list(self._times.items()))


def _changed_ns(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


_NUMBERS = re.compile("[0-9]+")
_Template = tuple[str, str, int]
"""The text before and after a number, and its number of digits, which is 0 without leading zeros."""


@dataclass(slots=True)
class _Run:
    template: _Template | None
    first: int
    count: int
    name: str

    def names(self) -> Iterator[str]:
        if self.template is None or self.count == 1:
            yield self.name
            return
        before, behind, width = self.template
        for number in range(self.first, self.first + self.count):
            yield f"{before}{number:0{width}d}{behind}"

    def row(self) -> list[object]:
        if self.template is None or self.count == 1:
            return [self.name]
        before, behind, width = self.template
        return [self.name, (before, behind), width, self.count]


class KnownNames:
    """A growing set of file names, encoded so that many names need little space in a checkpoint.

    Files are mostly numbered: for names that differ only in one consecutive number, the first name and their count are
    stored. The encoding is exact.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._runs: list[_Run] = []
        self._continued_by: dict[tuple[_Template, int], _Run] = {}
        for name in sorted(names):
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> None:
        """Add a name. The encoding is smallest if names are added in order."""
        if name in self._names:
            return
        self._names.add(name)
        places = list(_places(name))
        for template, number in places:
            run = self._continued_by.pop((template, number), None)
            if run is not None and (run.template is None or run.template == template):
                # A run with a single name may be continued in any of its numbers. This name determines the number.
                run.template, run.first = template, number - run.count
                run.count += 1
                self._continued_by[template, number + 1] = run
                return
        run = _Run(None, 0, 1, name)
        self._runs.append(run)
        for template, number in places:
            self._continued_by[template, number + 1] = run

    def encode(self) -> bytes:
        rows = [run.row() for run in self._runs]
        return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)

    @classmethod
    def decode(cls, data: bytes) -> KnownNames:
        if not data:
            return cls()
        try:
            rows = json.loads(zlib.decompress(data))
            return cls(name for row in rows for name in _run(*row).names())
        except (zlib.error, TypeError, ValueError) as damaged:
            raise SourceError(f"the checkpoint has no readable list of the files read: {damaged}") from damaged


def _places(name: str) -> Iterator[tuple[_Template, int]]:
    for match in _NUMBERS.finditer(name):
        digits = match.group()
        width = len(digits) if digits.startswith("0") else 0
        yield (name[: match.start()], name[match.end() :], width), int(digits)


def _run(name: str, template: Sequence[str] = (), width: int = 0, count: int = 1) -> _Run:
    if not template:
        return _Run(None, 0, 1, name)
    before, behind = template
    return _Run((before, behind, width), int(name[len(before) : len(name) - len(behind)]), count, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    name: str
    split: FileSplit
    event_time_max: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileFacts:
    """Text files have no footer, and their row count is zero."""

    rows: int
    event_time_max: int | None


class FileSplitDiscovery:
    """Lists the folder of one source. Not thread-safe."""

    def __init__(
        self, source: FileSourceSettings, operator_id: OperatorId, filesystem: FileSystem | ObjectStore
    ) -> None:
        self._source = source
        self._operator_id = operator_id
        self._filesystem = filesystem
        # The position of `_known` and `_listed`; None after a failed discovery, which may leave them inconsistent.
        self._position: bytes | None = b""
        self._known = KnownNames()
        self._listed: deque[_File] = deque()
        self._is_last_listing = False
        self._missing_path: str | None = None
        self._times = FolderTimes()
        self.interval_ms = source.interval_ms
        is_watched = source.watches and filesystem.local(source.path) is not None
        self.changed = self._times.changed if is_watched else None

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the new batches, in reading order.

        Raises:
            SourceNotFoundError: the path does not exist; a monitored folder may be created later.
            EmptySourceError: a bounded source has no file.
            UnreadableFileError: a file is not parquet.
            FileSchemaError: a file does not have the columns of the source.
        """
        if position != self._position:
            self._known = KnownNames.decode(position)
            self._listed.clear()
        self._position = None
        if not self._listed:
            self._list()
            if not self._listed and not position and self._source.interval_ms is None:
                raise EmptySourceError(f"no files to read in {self._source.path}")
        splits = tuple(self._batch(group) for group in self._groups())
        reached = self._known.encode() if splits else position
        self._position = reached
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=splits,
            finished=self._is_last_listing and not self._listed,
            begun_at=position,
            position=reached,
            more=bool(self._listed),
            files_left=len(self._listed),
            missing_path=self._missing_path,
        )

    def _list(self) -> None:
        # Determined before the listing, so that the last listing includes files that were added in between.
        self._is_last_listing = self._source.interval_ms is None or self._is_finished()
        self._listed.extend(self._new_files())

    def _groups(self) -> Iterator[list[_Piece]]:
        """Yield groups of pieces: whole files in the order of their paths, or all ranges of a file that is divided."""
        groups, group = 0, list[_Piece]()
        while self._listed and groups < SPLITS_PER_LOOK:
            file = self._listed[0]
            for piece in self._pieces(file):
                if group and not self._fits(group, piece):
                    yield group
                    groups, group = groups + 1, []
                group.append(piece)
            self._listed.popleft()
            self._known.add(file.name)
        if group:
            yield group

    @cached_property
    def _root(self) -> str:
        return self._filesystem.qualified(self._source.path)

    def _is_finished(self) -> bool:
        until = self._source.until
        if isinstance(until, str):
            return self._filesystem.exists(f"{self._source.path}/{until}")
        return until is not None and until()

    def _pieces(self, file: _File) -> Iterator[_Piece]:
        facts = self._read_facts(file.path, file.name)
        limit = self._source.rows_limit
        if limit is None or facts.rows <= limit:
            yield self._piece(file, file.name, 0, facts.rows, facts)
            return
        for start in range(0, facts.rows, limit):
            rows = min(limit, facts.rows - start)
            yield self._piece(file, f"{file.name}{_RANGE}{start}-{rows}", start, rows, facts)

    def _read_facts(self, path: str, name: str) -> _FileFacts:
        if not self._source.file_format.has_footers:
            return _FileFacts(rows=0, event_time_max=None)
        read = footer(path, self._source.event_time, self._filesystem.open)
        # Before a source is bound to a job, its schema may not be known.
        if isinstance(self._source.schema, StructType) and read.schema is not None:
            wrong = schema_mismatch(
                self._source.schema,
                read.schema,
                elsewhere={column.lower() for column in partition_in(unquote(name))},
                may_lack=merges_schemas(self._source.reader_options),
            )
            if wrong is not None:
                raise FileSchemaError(f"{plain_path(path)} does not fit the schema of the source: {wrong}")
        return _FileFacts(rows=read.rows, event_time_max=read.event_time_max)

    def _piece(self, file: _File, name: str, start: int, rows: int, facts: _FileFacts) -> _Piece:
        whole = rows == facts.rows
        split = FileSplit(split_id=SplitId(name), path=file.path, start_row=start, rows=rows, whole_file=whole)
        # The statistics cover the whole file. For a range of rows they would be ahead of the rows.
        event_time_max = facts.event_time_max if whole else None
        return _Piece(name=name, split=split, event_time_max=event_time_max, size_bytes=file.size_bytes)

    def _new_files(self) -> Iterator[_File]:
        new = [(path, name) for path, name in self._files() if name not in self._known]
        readable = self._settled([path for path, _ in new])
        for path, name in new:
            if path in readable:
                yield _File(path=path, name=name, size_bytes=self._filesystem.size_bytes(path))

    def _settled(self, paths: list[str]) -> set[str]:
        """Return the files that may be read now: all files, unless there will be another discovery soon."""
        if self.changed is None or self._is_last_listing:
            return set(paths)
        local = {path: self._filesystem.local(path) for path in paths}
        settled = self._times.settled(each for each in local.values() if each is not None)
        return {path for path, each in local.items() if each is None or each in settled}

    def _files(self) -> Iterator[tuple[str, str]]:
        root = self._root
        self._missing_path = None
        self._times.clear()
        if not self._filesystem.exists(root):
            if self._source.interval_ms is not None:
                self._times.record(self._source.path)
                self._missing_path = self._source.path_as_written or self._source.path
                return
            raise SourceNotFoundError(f"nothing to read at {self._source.path}: there is no such folder or file")
        if not self._filesystem.is_folder(root):
            yield root, quote(root.rsplit("/", 1)[1])
            return
        for path in self._filesystem.paths_below(root, self._times.record):
            name = path.removeprefix(root).lstrip("/")
            if name != self._source.until:
                yield path, quote(name)

    def _fits(self, group: list[_Piece], piece: _Piece) -> bool:
        limit = self._source.rows_limit
        if limit is None:
            # Without a limit, the reader decides which files to read together.
            return len(group) < (self._source.files_limit or 1)
        # A range is read by row number, which starts at 0 in each file, so a range is a separate batch.
        whole = piece.split.whole_file and group[0].split.whole_file
        return whole and sum(member.split.rows for member in group) + piece.split.rows <= limit

    def _batch(self, group: list[_Piece]) -> FileBatchSplit:
        times = [piece.event_time_max for piece in group]
        reader_decides = self._source.files_limit is None and self._source.rows_limit is None
        return FileBatchSplit(
            split_id=SplitId("+".join(piece.name for piece in group)),
            files=tuple(piece.split for piece in group),
            rows=sum(piece.split.rows for piece in group),
            event_time_max=None if None in times else max(time for time in times if time is not None),
            size_bytes=sum(piece.size_bytes for piece in group) if reader_decides else None,
        )


_RANGE = "#"
