"""The two phases of a file sink: rows are staged out of sight, and published by rename.

Staged files lie below `<path>/.flykka-staging/<job>/`, which Spark's readers ignore. At a snapshot each gets the name
it will have, and staged path, name, size and digest go into the checkpoint. When a checkpoint is complete, what it and
those before it hold is renamed. A rename is repeated without harm: a file whose source is gone and whose target is
there has been published. So a restore publishes everything its checkpoint holds, whatever the attempts before have come
to do, and then deletes whatever else this subtask had staged. Jobs that begin from one savepoint, and the one that goes
on behind it, hold copies of a file: the first to publish it does so for all of them.

Nothing of a checkpoint is published unless all of it is as it was staged.

Where the number or the size of files is settled, batches are staged as parquet first, and written again at the
snapshot.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from flykka.actors.checkpoint_storage.staged_paths import batch_folder
from flykka.actors.machines.state.operator_state import Committables
from flykka.messages.state.handles import FileDigest, PendingFile
from flykka.spark_bridge.connectors.file.published_files import published_prefix
from flykka.spark_bridge.connectors.staging import (
    StagedCheck,
    StagedRows,
    Staging,
    check_size,
    lost_file,
    read_staged,
    restored,
    warn_unchecked,
)
from flykka.spark_bridge.errors import SinkError, StagedFileError
from flykka.spark_bridge.program.sink import SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.state.savepoint import out_of_savepoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.wire.message import Value
    from flykka.spark_bridge.rows.files import FileLayout

logger = logging.getLogger("flykka.spark_bridge")

STAGING = ".flykka-staging"

_NAME_OF_SPARK = re.compile(r"(?P<unique>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})[-.]c\d+(?P<suffix>\..+)$")


class FileWriter(SinkWriter["DataFrame"]):
    """The staged and pending files of one sink in one attempt."""

    def __init__(
        self,
        context: SinkContext,
        path: str,
        layout: FileLayout,
        *,
        files_limit: int | None = None,
        file_size_bytes: int | None = None,
    ) -> None:
        """With a limit of files, or their size, batches are staged to be written again for each checkpoint."""
        self._path_as_given = path
        self._layout = layout
        self._files_limit, self._file_size_bytes = files_limit, file_size_bytes
        self._context = context
        self._filesystem = context.filesystem
        self._staging = Staging(context)
        self._rows = StagedRows(self._staging) if files_limit is not None or file_size_bytes is not None else None
        self._committables: Committables[PendingFile] = Committables()

    def restore(self, prepared: Sequence[Value]) -> None:
        prepared = out_of_savepoint(self._filesystem, prepared, self._staging.folder)
        pending, folders = restored(prepared, PendingFile, self._context.operator, "file")
        warn_unchecked(self._context.operator, (file.digest for file in pending))
        # A batch may be published by several subtasks, each some files of it: its folder goes with all that was staged.
        self._publish(
            tuple(replace(file, staged=self._staging.owner.find(file.staged)) for file in pending), restored=True
        )
        self._staging.restore(folders)

    def stage(self, rows: DataFrame) -> Staged:
        """Write rows out of sight. One Spark job."""
        if self._rows is not None:
            return self._rows.stage(rows)
        batch = self._staging.write(rows, self._layout)
        return Staged(rows=batch.rows, names=batch.files)

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        """Give the files staged before a barrier their names; what to keep in the checkpoint."""
        staged = names if self._rows is None else self._rewritten(self._rows, checkpoint_id, names)
        digests = self._staging.seal(staged)
        named = tuple(
            self._named(checkpoint_id, number, path, digest)
            for number, (path, digest) in enumerate(zip(staged, digests, strict=True))
        )
        self._committables.pending += named
        return (*self._committables.pending, *self._staging.folders)

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish what a complete checkpoint holds; the files."""
        due = self._committables.due(checkpoint_id)
        self._publish(due, restored=False)
        self._staging.discard(batch_folder(file.staged) for file in due)
        self._committables.on_committed(checkpoint_id)
        self._staging.release_inherited()
        return tuple(file.target for file in due)

    @cached_property
    def _path(self) -> str:
        # A checkpoint may be restored where a relative path leads elsewhere.
        return self._filesystem.qualified(self._path_as_given)

    def _rewritten(self, rows: StagedRows, checkpoint_id: int, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            return ()
        # What is read here is on disk: fewer partitions make the reading no slower than the writing.
        whole = read_staged(self._context.scope.session, rows.pop_staged(checkpoint_id, names))
        files = self._files_of(names)
        # To several files of one size rows are dealt; a limit alone may leave them where they are.
        grouped = whole.repartition(files) if files > 1 and self._file_size_bytes else whole.coalesce(files)
        batch = self._staging.write(grouped, self._layout)
        self._staging.discard(names)
        return batch.files

    def _files_of(self, batches: tuple[str, ...]) -> int:
        """The number of files that batches become."""
        limit, size = self._files_limit, self._file_size_bytes
        wanted = limit if size is None else -(-sum(map(self._filesystem.bytes_below, batches)) // size)
        assert wanted is not None, "either is set where batches are staged to be written again"
        return wanted if limit is None else min(wanted, limit)

    def _named(self, checkpoint_id: int, number: int, path: str, digest: FileDigest) -> PendingFile:
        *_, name = parts = path.split("/")
        found = _NAME_OF_SPARK.search(name)
        assert found is not None, f"Spark's names of files have a UUID and a number, but {path} has none"
        folders = parts[-1 - len(self._layout.partition_by) : -1]
        writer = f"{published_prefix(self._context.job_name)}{self._staging.name}"
        target = f"{writer}-{checkpoint_id}-{number}-{found['unique']}{found['suffix']}"
        return PendingFile(
            checkpoint_id=checkpoint_id, staged=path, target="/".join([self._path, *folders, target]), digest=digest
        )

    def _publish(self, files: tuple[PendingFile, ...], *, restored: bool) -> None:
        if not files:
            return
        self._staging.owner.check()
        waiting = self._waiting(files, restored=restored)
        for folder in {_parent(file.target) for file in waiting} - {self._path}:
            self._filesystem.make_folder(folder)
        for file in waiting:
            self._rename(file)
        # Of all files: renames that an attempt before has made may not be durable yet. The new names come first: a file
        # must not lose both.
        self._staging.sync(folder for file in files for folder in self._folders_of(file.target))
        self._staging.sync(_parent(file.staged) for file in waiting)

    def _waiting(self, files: tuple[PendingFile, ...], *, restored: bool) -> tuple[PendingFile, ...]:
        """The files that have yet to be published. Raises `StagedFileError` if one is missing or was changed."""
        batches = {batch_folder(file.staged) for file in files}
        staged = {status.path: status.size_bytes for batch in batches for status in self._filesystem.files_below(batch)}
        for file in files:
            if file.staged in staged and file.digest is not None:
                check_size(file.staged, written=file.digest.size_bytes, found=staged[file.staged])
            if file.staged not in staged and not self._filesystem.exists(file.target):
                self._check_taken_away(file, restored=restored)
        waiting = tuple(file for file in files if file.staged in staged)
        StagedCheck(self._filesystem, self._context.scope.session, restored=restored).check_digests(
            [(file.staged, file.digest) for file in waiting if file.digest is not None]
        )
        return waiting

    def _check_taken_away(self, file: PendingFile, *, restored: bool) -> None:
        """Raise unless a missing file was published by an attempt before, and moved from the output since.

        While the folder of its job is there, what is staged goes by being published and in no other way, and then its
        batch's folder goes too. Flink's local committer passes over such files as well. What another job has staged may
        have gone with its folder.

        Raises:
            StagedFileError: the file is lost.
            SinkError: the disk is away, or was, and not the file.
            OwnershipLostError: a later owner of the job has moved the file.
        """
        if restored and self._staging.was_published(batch_folder(file.staged)):
            logger.warning("%s: %s is no longer there: taken for published", self._context.operator, file.target)
            return
        self._staging.owner.check()
        raise lost_file(self._filesystem, file.staged, file.target, file.target)

    def _rename(self, file: PendingFile) -> None:
        if self._filesystem.exists(file.target):
            if not self._is_same(file):
                raise StagedFileError(f"{file.target} is there already, and {file.staged} waits to become it")
            self._filesystem.delete(file.staged)
            return
        if not self._filesystem.rename(file.staged, file.target) and not self._filesystem.exists(file.target):
            self._staging.owner.check()
            raise SinkError(f"{file.staged} cannot be renamed to {file.target}")

    def _folders_of(self, target: str) -> Iterator[str]:
        """The folder of a published file, and those of partitions above it."""
        folder = _parent(target)
        yield folder
        while folder.startswith(f"{self._path}/"):
            folder = _parent(folder)
            yield folder

    def _is_same(self, file: PendingFile) -> bool:
        """True if what is there is a copy of the file, out of a savepoint: no other file has its name."""
        return self._filesystem.size_bytes(file.staged) == self._filesystem.size_bytes(file.target)


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0]
