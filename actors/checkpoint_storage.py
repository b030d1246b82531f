"""The files of a job's checkpoints, on whatever fsspec can reach. Every call may block.

    <directory>/<job id>/job-graph              what was submitted
    <directory>/<job id>/chk-<n>/_metadata      checkpoint n, which exists from the moment this file does
    <directory>/<job id>/chk-<n>/_continued     the id of a job that has gone on from it, and has left none of its own
    <directory>/<job id>/shared/                keyed state, written by the data plane and deleted from here

A file is a header (magic, format version, length and CRC-32 of the rest) and one value of the codec. It is written
under another name and renamed, so that whoever looks finds it whole or not at all. To delete what is gone is no error.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from glob import escape
from typing import TypeVar

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from flykka.actors.errors import (
    CheckpointDirectoryError,
    CheckpointFormatError,
    CheckpointNotFoundError,
    CheckpointStorageError,
    CheckpointVersionError,
)
from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.codec import decode, encode
from flykka.messages.errors import DecodeError
from flykka.messages.ids import JobId
from flykka.messages.job_graph import JobGraph
from flykka.messages.message import Value

FORMAT_VERSION = 1

_MAGIC = b"FLYKKA\r\n"
_HEADER = struct.Struct(">8sHQI")
_METADATA = "_metadata"
_CONTINUED = "_continued"
_JOB_GRAPH = "job-graph"
_CHECKPOINT = "chk-"

V = TypeVar("V", bound=Value)


class CheckpointStorage:
    """The checkpoints below one directory: a path of this machine, or an address such as `s3://bucket/checkpoints`.

    Raises:
        CheckpointDirectoryError: there is no way to such an address, or what it needs is not installed.
    """

    def __init__(self, directory: str) -> None:
        try:
            self._fs, self._root = url_to_fs(directory)
        except (ValueError, ImportError) as unknown:
            raise CheckpointDirectoryError(
                f"the checkpoint directory {directory!r} cannot be used: {unknown}"
            ) from None
        self._is_local = isinstance(self._fs, LocalFileSystem)

    def write_metadata(self, checkpoint: CompletedCheckpoint, target_location: str | None = None) -> str:
        """Make the checkpoint exist, below `target_location` if it is a savepoint's; returns its address."""
        folder = f"{self._job(checkpoint.job_id)}/{_CHECKPOINT}{checkpoint.checkpoint_id}"
        if target_location is not None:
            folder = self._path(target_location)
        address = self._address(folder)
        self._write(f"{folder}/{_METADATA}", replace(checkpoint, path=address))
        return address

    def read_metadata(self, path: str) -> CompletedCheckpoint:
        """The checkpoint at `path`, its folder or its metadata file, wherever it may have been moved to.

        Raises:
            CheckpointNotFoundError: there is none.
            CheckpointFormatError: the file is not a checkpoint's, or not whole.
            CheckpointVersionError: a newer version wrote it.
            CheckpointStorageError: it may not be read.
        """
        folder = self._path(path).removesuffix(f"/{_METADATA}")
        return replace(self._read(f"{folder}/{_METADATA}", CompletedCheckpoint), path=self._address(folder))

    def latest(self, job_id: JobId) -> str | None:
        """The address of the newest checkpoint that exists, None where there is none."""
        names = [folder.rsplit("/", 1)[-1] for folder in self._folders(escape(self._job(job_id)))]
        ids = [int(name.removeprefix(_CHECKPOINT)) for name in names]
        return self._address(f"{self._job(job_id)}/{_CHECKPOINT}{max(ids)}") if ids else None

    def addresses(self) -> list[str]:
        """The addresses of every checkpoint that exists, of all jobs, in no order."""
        return [self._address(folder) for folder in self._folders(f"{escape(self._root)}/*")]

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder at `path`."""
        return bool(self._fs.exists(self._path(path)))

    def drop_checkpoint(self, path: str) -> None:
        """Delete a checkpoint: from the first step on it does not exist any more."""
        folder = self._path(path)
        self._remove(f"{folder}/{_METADATA}")
        self._remove(folder)

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files and folders of state."""
        for path in paths:
            self._remove(self._path(path))

    def dispose(self, checkpoints: Iterable[str], state: Iterable[str]) -> None:
        """Delete checkpoints, then state that they may have referred to."""
        for path in checkpoints:
            self.drop_checkpoint(path)
        self.discard(state)

    def write_job_graph(self, job_graph: JobGraph) -> None:
        """Persist what was submitted.

        Raises:
            CheckpointDirectoryError: nothing can be written there.
        """
        try:
            self._write(f"{self._job(job_graph.job_id)}/{_JOB_GRAPH}", job_graph)
        except OSError as refusal:
            raise CheckpointDirectoryError(self._unwritable(refusal)) from refusal

    def read_job_graph(self, job_id: JobId) -> JobGraph:
        """What was submitted under this id. Raises as `read_metadata` does."""
        return self._read(f"{self._job(job_id)}/{_JOB_GRAPH}", JobGraph)

    def delete_job(self, job_id: JobId, continued: str | None = None) -> None:
        """Delete everything of the job, and note beside the checkpoint `continued` that it has gone on from there."""
        try:
            # Where that one is gone, nobody else can go on from it.
            if continued is not None and self._fs.exists(self._path(continued)):
                self._fs.pipe_file(f"{self._path(continued)}/{_CONTINUED}", job_id.encode())
        finally:
            self._remove(self._job(job_id))

    def continued_by(self, path: str) -> JobId | None:
        """The job that has gone on from the checkpoint at `path` and has left none of its own, if there is one."""
        try:
            return JobId(self._fs.cat_file(f"{self._path(path)}/{_CONTINUED}").decode())
        except FileNotFoundError:
            return None

    def _job(self, job_id: JobId) -> str:
        return f"{self._root}/{job_id}"

    def _folders(self, below: str) -> list[str]:
        return [path.rsplit("/", 1)[0] for path in self._fs.glob(f"{below}/{_CHECKPOINT}*/{_METADATA}")]

    def _unwritable(self, refusal: OSError) -> str:
        if self._fs.isfile(self._root):
            return f"the checkpoint directory {self._root!r} is a file"
        return f"the checkpoint directory {self._root!r} cannot be written: {refusal.strerror or refusal}"

    def _path(self, address: str) -> str:
        stripped: str = self._fs._strip_protocol(address)
        return stripped

    def _address(self, path: str) -> str:
        return path if self._is_local else str(self._fs.unstrip_protocol(path))

    def _write(self, path: str, value: Value) -> None:
        body = encode(value)
        unfinished = f"{path}.inprogress"
        folder = path.rsplit("/", 1)[0]
        self._fs.makedirs(folder, exist_ok=True)
        try:
            with self._fs.open(unfinished, "wb") as file:
                file.write(_HEADER.pack(_MAGIC, FORMAT_VERSION, len(body), zlib.crc32(body)) + body)
                if self._is_local:
                    file.flush()
                    os.fsync(file.fileno())
            self._fs.mv(unfinished, path)
        except BaseException:
            self._remove(unfinished)
            with suppress(OSError):  # It holds something else.
                self._fs.rmdir(folder)
            raise

    def _read(self, path: str, expected: type[V]) -> V:
        try:
            data: bytes = self._fs.cat_file(path)
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise CheckpointNotFoundError(f"{path}: there is no such file") from missing
        except OSError as refusal:
            raise CheckpointStorageError(f"{path}: cannot be read: {refusal.strerror or refusal}") from refusal
        body = _body(path, data)
        try:
            value = decode(body)
        except DecodeError as refusal:
            raise CheckpointFormatError(f"{path}: {refusal}") from refusal
        if not isinstance(value, expected):
            raise CheckpointFormatError(f"{path}: holds a {type(value).__name__}, not a {expected.__name__}")
        return value

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm(path, recursive=True)


def _body(path: str, data: bytes) -> bytes:
    if not data.startswith(_MAGIC):
        raise CheckpointFormatError(f"{path}: not a file of flykka")
    if len(data) < _HEADER.size:
        raise CheckpointFormatError(f"{path}: cut off within its header")
    _, version, length, crc = _HEADER.unpack_from(data)
    if version > FORMAT_VERSION:
        raise CheckpointVersionError(
            f"{path}: a newer flykka wrote it: format version {version}, known up to {FORMAT_VERSION}"
        )
    body = data[_HEADER.size :]
    if len(body) != length:
        raise CheckpointFormatError(f"{path}: {length} bytes were written, {len(body)} are there")
    if zlib.crc32(body) != crc:
        raise CheckpointFormatError(f"{path}: altered since it was written (CRC)")
    return body
