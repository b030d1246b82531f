"""Digests of files written by Spark, computed on the machine that holds each file: in the driver or by a Spark job.

Python workers compute the digests of the files that they write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from flykka.actors.checkpoint_storage.file_digests import (
    folders_within,
    sealed,
    sync_folders,
    verify_file,
    verify_names,
)
from flykka.actors.errors import CheckpointFormatError
from flykka.messages.state.handles import FileDigest
from flykka.spark_bridge.session.session import has_one_machine
from flykka.spark_bridge.worker.file_digests import DAMAGED, SEALED, SealFiles, VerifyFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.state.handles import ExclusiveStateHandle, InFlightRows, SharedStateHandle
    from flykka.spark_bridge.rows.filesystem import FileSystem

    Handle = SharedStateHandle | ExclusiveStateHandle | InFlightRows

A = TypeVar("A")
B = TypeVar("B")

_THREADS = 8


def seal(
    session: SparkSession, files: Sequence[str], folder: str, *, within: str | None = None, sync: bool = True
) -> tuple[FileDigest, ...]:
    """Make files below `folder` durable, and all folders from `within` down to them. Return their digests in order.

    `within` (by default `folder`) is `folder` or one of its parents; its own directory entry must be durable already.
    Without `sync`, files are only digested. All paths are qualified. Blocks, and runs a Spark job if executors are on
    several machines.
    """
    if not files:
        return ()
    top = within or folder
    names = [file.removeprefix(f"{folder}/") for file in files]
    if has_one_machine(session):
        digests = _in_threads(lambda place: sealed(files[place], names[place], sync=sync), range(len(files)))
        if sync:
            sync_folders(folders_within(files, top))
        return tuple(digests)
    work = SealFiles(paths=tuple(files), within=top if sync else None)
    rows = _places(session, len(files)).mapInArrow(work, SEALED).collect()
    return tuple(
        FileDigest(name=names[row["place"]], size_bytes=row["size_bytes"], digest=bytes(row["digest"]))
        for row in sorted(rows, key=lambda row: int(row["place"]))
    )


def verify(session: SparkSession, files: Sequence[tuple[str, FileDigest]]) -> None:
    """Compare files, given as paths and digests. Blocks, and may run a Spark job like `seal`.

    Raises:
        CheckpointStateMissingError: a file does not exist; the message names it.
        CheckpointFormatError: a file was altered or truncated; the message names it.
    """
    if not files:
        return
    if has_one_machine(session):
        _in_threads(lambda file: verify_file(*file), files)
        return
    rows = _places(session, len(files)).mapInArrow(VerifyFiles(files=tuple(files)), DAMAGED).collect()
    if rows:
        raise CheckpointFormatError(str(min((row["place"], row["reason"]) for row in rows)[1]))


def verify_handles(session: SparkSession, handles: Iterable[Handle]) -> None:
    """Compare the files of handles with their digests. Handles of older versions have no digests. Blocks like `verify`.

    Raises:
        CheckpointStateMissingError: a file does not exist; the message names it.
        CheckpointFormatError: a file is damaged or unexpected; the message names it.
    """
    with_files = [handle for handle in handles if handle.files]
    for handle in with_files:
        verify_names(handle.path, handle.files)
    verify(session, [(f"{handle.path}/{file.name}", file) for handle in with_files for file in handle.files])


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """Seals the files of handles when they are written, and verifies them before they are read. All calls block."""

    filesystem: FileSystem
    session: SparkSession
    sync: bool

    def seal(self, folder: str, within: str) -> tuple[FileDigest, ...]:
        """Seal all files below a folder, like the function `seal`. `folder` must be qualified."""
        files = [file.path for file in self.filesystem.files_below(folder)]
        top = self.filesystem.qualified(within)
        return seal(self.session, files, folder, within=top, sync=self.sync)

    def verify(self, handles: Iterable[Handle]) -> None:
        verify_handles(self.session, handles)


def _places(session: SparkSession, number: int) -> DataFrame:
    parallelism = min(number, max(1, session.sparkContext.defaultParallelism))
    return session.range(0, number, numPartitions=parallelism).toDF("place")


def _in_threads(work: Callable[[A], B], pieces: Sequence[A]) -> list[B]:
    """Work in parallel threads, because hashing and fsync release the GIL. Results are in order."""
    if len(pieces) == 1:
        return [work(pieces[0])]
    with ThreadPoolExecutor(min(_THREADS, len(pieces)), thread_name_prefix="flykka-file-digests") as threads:
        return list(threads.map(work, pieces))
