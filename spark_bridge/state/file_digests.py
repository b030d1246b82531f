"""Digests of files that Spark has written, computed where they lie: in this process, or by one job on the executors.

Files that a Python worker writes itself are sealed there, while they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from flykka.actors.checkpoint_storage.file_digests import (
    folders_within,
    sealed,
    sync_folders,
    verify_file,
)
from flykka.actors.errors import CheckpointFormatError
from flykka.messages.state.file_digest import FileDigest
from flykka.spark_bridge.session.session import has_one_machine
from flykka.spark_bridge.worker.file_digests import DAMAGED, SEALED, SealFiles, VerifyFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

A = TypeVar("A")
B = TypeVar("B")

_THREADS = 8


def seal(
    session: SparkSession, files: Sequence[str], folder: str, *, within: str | None = None, sync: bool = True
) -> tuple[FileDigest, ...]:
    """Make files below `folder` durable, with the folders from `within` to them, and return their digests in order.

    `within` (by default `folder`) is `folder` or one above it: its own name is durable already. Without `sync` nothing
    is made durable. All paths are qualified. Blocks; runs a Spark job where executors are on several machines.
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
    """Compare files, by their paths, with their digests. Blocks; may run a Spark job, as `seal`.

    Raises:
        CheckpointStateMissingError: a file is not there; the text names it.
        CheckpointFormatError: a file was altered or cut off; the text names it.
    """
    if not files:
        return
    if has_one_machine(session):
        _in_threads(lambda file: verify_file(*file), files)
        return
    rows = _places(session, len(files)).mapInArrow(VerifyFiles(files=tuple(files)), DAMAGED).collect()
    if rows:
        raise CheckpointFormatError(str(min((row["place"], row["reason"]) for row in rows)[1]))


def _places(session: SparkSession, number: int) -> DataFrame:
    parallelism = min(number, max(1, session.sparkContext.defaultParallelism))
    return session.range(0, number, numPartitions=parallelism).toDF("place")


def _in_threads(work: Callable[[A], B], pieces: Sequence[A]) -> list[B]:
    """Do work on each piece; the results in order. Hashing and fsync release the interpreter's lock."""
    if len(pieces) == 1:
        return [work(pieces[0])]
    with ThreadPoolExecutor(min(_THREADS, len(pieces)), thread_name_prefix="flykka-file-digests") as threads:
        return list(threads.map(work, pieces))
