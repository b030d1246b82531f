"""The splits of a DeltaSource: the files of a version of its table, and then the files that later versions add.

The position of a look is a text of JSON: `snapshot`, the version whose files as a whole are looked for, null behind
them; `version`, the first of those whose changes were not all found; `files`, how many files of the one or the other
were found; and `end`, the last version of a bounded source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from flykka.messages.tasks.source import SplitsDiscovered
from flykka.spark_bridge.connectors.delta.columns import spark_schema
from flykka.spark_bridge.connectors.delta.log import AddedFile, Commit, commit_of, files_at
from flykka.spark_bridge.connectors.delta.splits import split_of_file
from flykka.spark_bridge.connectors.delta.table import TableLocation, facts_of
from flykka.spark_bridge.connectors.delta.versions import (
    NO_DELETION_VECTORS,
    check_readable,
    check_whole_files,
    first_version,
    last_version,
    opened,
)
from flykka.spark_bridge.errors import FileSchemaError, SourceError
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK

if TYPE_CHECKING:
    from flykka.messages.tasks.source import SerializedSplit
    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.connectors.delta.source_settings import DeltaSourceSettings
    from flykka.spark_bridge.rows.filesystem import FileSystem


@dataclass(slots=True, kw_only=True)
class _Position:
    snapshot: int | None
    version: int
    files: int = 0
    end: int | None = None

    @classmethod
    def of(cls, position: bytes) -> _Position:
        try:
            return cls(**json.loads(position))
        except (ValueError, TypeError):
            raise SourceError(f"the checkpoint's position {position!r} is none of a Delta source") from None

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class DeltaSplitDiscovery:
    """Looks into the log of one table. Used by one call at a time, but for `changed`."""

    def __init__(self, source: DeltaSourceSettings, operator_id: OperatorId, filesystem: FileSystem) -> None:
        self._source = source
        self._operator_id = operator_id
        self._filesystem = filesystem
        self._location = TableLocation.of(source.path, source.options, filesystem)
        self._listed: tuple[int, bool, Sequence[AddedFile]] | None = None
        self._next_commit: str | None = None
        self._has_begun = False
        self.interval_ms = source.interval_ms
        is_local = filesystem.local(source.path) is not None
        self.changed: Callable[[], bool] | None = self._changed if self.interval_ms is not None and is_local else None

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The files that are there and were not found before.

        Raises:
            SourceError: the table cannot be read, or a version has taken rows out of it.
        """
        at = _Position.of(position) if position else self._beginning()
        if not self._has_begun:
            self._check_log(at)
            self._has_begun = True
        splits: list[SerializedSplit] = []
        while len(splits) < SPLITS_PER_LOOK:
            found = self._files(at)
            if found is None:
                break
            version = at.version if at.snapshot is None else at.snapshot
            room = SPLITS_PER_LOOK - len(splits)
            splits += (split_of_file(file, version) for file in found[at.files : at.files + room])
            at.files += room
            if at.files >= len(found):
                at.files = 0
                if at.snapshot is None:
                    at.version += 1
                at.snapshot = None
        is_over = at.snapshot is None and at.end is not None and at.version > at.end
        self._next_commit = self._location.commit(at.version)
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(splits),
            finished=is_over,
            begun_at=position,
            position=at.encoded(),
            more=not is_over and len(splits) >= SPLITS_PER_LOOK,
        )

    def _beginning(self) -> _Position:
        first = first_version(self._source, self._location)
        end = None if self._source.interval_ms is not None else last_version(self._source, self._location)
        if first is not None:
            return _Position(snapshot=None, version=first, end=end)
        whole = last_version(self._source, self._location)
        return _Position(snapshot=whole, version=whole + 1, end=end)

    def _files(self, at: _Position) -> Sequence[AddedFile] | None:
        """The files of the snapshot, or the added ones of the version, by path; None if it is not there."""
        is_whole = at.snapshot is not None
        version = at.version if at.snapshot is None else at.snapshot
        if self._listed is not None and self._listed[:2] == (version, is_whole):
            return self._listed[2]
        if is_whole:
            files = self._files_at(version)
        elif at.end is not None and version > at.end:
            return None
        else:
            commit = self._commit(version)
            if commit is None:
                return None
            files = commit.added
        for file in files:
            if file.has_deletion_vector:
                raise SourceError(f"{file.path} of {self._source.path} has deletion vectors{NO_DELETION_VECTORS}")
        self._listed = version, is_whole, sorted(files, key=lambda file: file.path)
        return self._listed[2]

    def _files_at(self, version: int) -> Sequence[AddedFile]:
        table = opened(self._location, version)
        check_whole_files(self._location, table)
        return list(files_at(table, self._source.event_time))

    def _commit(self, version: int) -> Commit | None:
        """The changes of a version, if they can be read as rows that were added; None if it is not there yet."""
        try:
            commit = commit_of(self._location, version, self._source.event_time)
        except FileNotFoundError:
            return None
        if commit.facts is not None:
            check_readable(self._location, commit.facts)
            if commit.facts.columns is not None and isinstance(self._source.schema, StructType):
                self._check_columns(spark_schema(commit.facts.columns), version)
        if not commit.removed:
            return commit
        if self._source.skips_change_commits:
            return Commit()
        if self._source.ignores_deletes and not commit.added:
            return commit
        what = "rewritten" if commit.added else "deleted"
        skip = "skip_change_commits()" if commit.added else "ignore_deletes() or skip_change_commits()"
        raise SourceError(
            f"version {version} of {self._source.path} has {what} rows, in {len(commit.removed)} files such as"
            f" {commit.removed[0]}, and a DeltaSource reads rows that are added: {skip} passes over such versions, and"
            f" starting_version({version + 1}) begins behind this one"
        )

    def _check_log(self, at: _Position) -> None:
        """Raise `SourceError` where the table cannot be read on from here."""
        table = opened(self._location)
        check_readable(self._location, facts_of(table))
        latest = table.version()
        if at.version > latest + 1:
            raise SourceError(
                f"{self._source.path} is to be read from version {at.version}, and its last one is {latest}: was it"
                " deleted and made again?"
            )
        needed = at.snapshot is None and at.version <= latest
        if needed and not self._filesystem.exists(self._location.commit(at.version)):
            raise SourceError(
                f"the log of {self._source.path} does not have version {at.version} any more, from which it is to be"
                " read: begin without a state, at the table as it is, or at a later version"
            )

    def _check_columns(self, columns: StructType, version: int) -> None:
        """Raise `FileSchemaError` where a column is gone, or of another type. New ones are not read."""
        assert isinstance(self._source.schema, StructType)
        there = {field.name: field.dataType.simpleString() for field in columns}
        for field in self._source.schema:
            found, wanted = there.get(field.name), field.dataType.simpleString()
            if found != wanted:
                now = "has no" if found is None else f"has the type {found} for the"
                raise FileSchemaError(
                    f"version {version} of {self._source.path} {now} column {field.name!r}, which the job reads as"
                    f" {wanted}: stop the job with a savepoint, and start it with the columns as they are now"
                )

    def _changed(self) -> bool:
        return self._next_commit is not None and self._filesystem.exists(self._next_commit)
