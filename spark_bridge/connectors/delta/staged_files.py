"""Moves the files that a checkpoint has staged into the folder of a table. The move may be repeated.

The files are moved before they are committed, and an attempt that dies in between leaves some files at their source and
some at their target. The checkpoint has a list of the files: a file with a target and without a source has been moved.
Checkpoints of older versions have no list; for these a list is written first, next to the files of the first batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fsspec.core import url_to_fs

from flykka.messages.state.handles import FileDigest
from flykka.spark_bridge.connectors.staging import check_size, lost_file
from flykka.spark_bridge.errors import SinkError, StagedFileError
from flykka.spark_bridge.rows.file_formats import partition_in

if TYPE_CHECKING:
    from flykka.spark_bridge.connectors.transactional import Transaction
    from flykka.spark_bridge.rows.filesystem import FileSystem

STAGING = "_flykka-staging"
"""The folder for staged files in a table's folder. Readers and vacuum ignore names that begin with `_`."""

_LIST = "_files.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file of batch number `batch`. `name` is its path relative to the batch's folder, and later to the table's."""

    batch: int
    name: str
    size_bytes: int
    digest: FileDigest | None = None

    @property
    def partition(self) -> dict[str, str | None]:
        return partition_in(self.name)


class TransactionFiles:
    def __init__(self, transaction: Transaction, folder: str) -> None:
        self._filesystem: FileSystem = transaction.filesystem
        self._transaction = transaction
        self._folder = folder.rstrip("/")
        self._list = f"{transaction.batches[0].path}/{_LIST}"

    def listed(self) -> tuple[StagedFile, ...]:
        """Return the files, moved or not yet moved. Raises `StagedFileError` if a file is missing or was changed."""
        batches = self._transaction.batches
        if all(batch.files for batch in batches):
            files = tuple(
                StagedFile(batch=number, name=file.name, size_bytes=file.size_bytes, digest=file)
                for number, batch in enumerate(batches)
                for file in batch.files
            )
            self._check(files)
            return files
        # Listed before the check: the list is written before the first move, so without a list no file was moved.
        there = tuple(self._staged()) if not self._filesystem.exists(self._list) else ()
        if self._filesystem.exists(self._list):
            return tuple(StagedFile(**each) for each in json.loads(read_bytes(self._list)))
        self._write_down(there)
        return there

    def place(self, file: StagedFile) -> str:
        staged = self._path(file)
        return staged if self._filesystem.exists(staged) else self.target(file)

    def target(self, file: StagedFile) -> str:
        return f"{self._folder}/{file.name}"

    def move(self, files: Sequence[StagedFile]) -> None:
        """Move the files that have not been moved.

        Raises:
            StagedFileError: a file is neither at its source nor at its target.
            SinkError: a file cannot be moved.
        """
        for folder in {self.target(file).rpartition("/")[0] for file in files}:
            self._filesystem.make_folder(folder)
        for file in files:
            self._move(self._path(file), self.target(file), file.size_bytes)
        # The new names are synced first, so that a file never loses both names.
        self._transaction.sync_names({self._folder, *(folder for file in files for folder in self._folders_of(file))})
        self._transaction.sync_names(self._path(file).rpartition("/")[0] for file in files)

    def _check(self, files: Sequence[StagedFile]) -> None:
        digests: list[tuple[str, FileDigest]] = []
        for file in files:
            place = self.place(file)
            if not self._filesystem.exists(place):
                raise lost_file(self._filesystem, self._path(file), place, place)
            check_size(place, written=file.size_bytes, found=self._filesystem.size_bytes(place))
            assert file.digest is not None, "the checkpoint has no digest of the file"
            digests.append((place, file.digest))
        self._transaction.check.check_digests(digests)

    def _move(self, staged: str, target: str, size_bytes: int) -> None:
        there, waiting = self._filesystem.exists(target), self._filesystem.exists(staged)
        if there and self._filesystem.size_bytes(target) != size_bytes:
            raise StagedFileError(f"{target} exists already, so {staged} cannot be renamed to it")
        if there:
            # The staged file next to the target is a copy from a savepoint.
            self._filesystem.delete(staged)
            return
        if not waiting:
            raise lost_file(self._filesystem, staged, target, target)
        if not self._filesystem.rename(staged, target) and not self._filesystem.exists(target):
            raise SinkError(f"{staged} cannot be renamed to {target}")

    def _folders_of(self, file: StagedFile) -> Iterator[str]:
        folder = file.name
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            yield f"{self._folder}/{folder}"

    def _staged(self) -> Iterator[StagedFile]:
        for number, folder in enumerate(self._transaction.folders()):
            for status in self._filesystem.files_below(folder):
                assert status.path.startswith(f"{folder}/"), (
                    f"{status.path} was listed as a file of {folder}, but is not in it"
                )
                name = status.path.removeprefix(f"{folder}/")
                yield StagedFile(batch=number, name=name, size_bytes=status.size_bytes)

    def _write_down(self, files: Sequence[StagedFile]) -> None:
        # A temporary name, so that no incomplete file has the name of the list.
        draft = f"{self._list}.{uuid4().hex}"
        write_bytes(draft, json.dumps([asdict(file) for file in files]).encode())
        if not self._filesystem.rename(draft, self._list) and not self._filesystem.exists(self._list):
            raise SinkError(f"{draft} cannot be renamed to {self._list}")

    def _path(self, file: StagedFile) -> str:
        return f"{self._transaction.batches[file.batch].path}/{file.name}"


def opened(path: str) -> Any:
    filesystem, inner = url_to_fs(path)
    return filesystem.open(inner, "rb")


def read_bytes(path: str) -> bytes:
    filesystem, inner = url_to_fs(path)
    return bytes(filesystem.cat_file(inner))


def write_bytes(path: str, content: bytes) -> None:
    filesystem, inner = url_to_fs(path)
    filesystem.pipe_file(inner, content)
