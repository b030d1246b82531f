"""The two phases of a file sink: rows are staged out of sight, and published by rename.

Staged files lie in `<path>/.flykka-staging/<job>/<uid>-<subtask>/<attempt>-<counter>/`, which Spark's readers ignore;
job and uid with a digest behind them, for two that read alike in a file name must not discard each other's files.
At a snapshot each gets the name it will have, and staged path and name go into the checkpoint. When a checkpoint is
complete, what it and those before it hold is renamed. A rename is repeated without harm: a file whose source is gone
and whose target is there has been published. So a restore publishes everything its checkpoint holds, whatever the
attempts before have come to do, and then deletes whatever else this subtask had staged.
"""

from __future__ import annotations

import hashlib
import re
from threading import Lock
from typing import TYPE_CHECKING

from flykka.messages.operator_state import FileSinkState, PendingFile
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.parquet import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.ids import JobId
    from flykka.spark_bridge.filesystem import FileSystem
    from flykka.spark_bridge.sinks.file_sink import FileSink

STAGING = ".flykka-staging"

_READABLE = 64
_DIGITS = 8


def staging_folder(sink: FileSink, job_id: JobId) -> str:
    """Where a job stages what it writes to a sink."""
    return f"{sink.path}/{STAGING}/{_in_a_name(job_id)}"


class FileCommitter:
    """The staged and pending files of one sink in one attempt. Safe to use from the attempt's threads."""

    def __init__(
        self, sink: FileSink, filesystem: FileSystem, *, job_id: JobId, uid: str, subtask: int, attempt_number: int
    ) -> None:
        self._sink = sink
        self._filesystem = filesystem
        self._name = f"{_in_a_name(uid)}-{subtask}"
        self._folder = f"{staging_folder(sink, job_id)}/{self._name}"
        self._attempt_number = attempt_number
        self._lock = Lock()
        self._staged_folders = 0
        self._pending: tuple[PendingFile, ...] = ()

    def restore(self, state: FileSinkState) -> tuple[str, ...]:
        """Publish what the checkpoint holds, discard the rest; the published files."""
        published = self._publish(state.pending)
        self._filesystem.delete(self._folder)
        return published

    def stage(self, rows: DataFrame) -> tuple[str, ...]:
        """Write rows out of sight; the files. One Spark job."""
        with self._lock:
            self._staged_folders += 1
            folder = f"{self._folder}/{self._attempt_number}-{self._staged_folders}"
        return tuple(status.path for status in write_parquet(self._filesystem, rows, folder))

    def prepare_commit(self, checkpoint_id: int, staged: tuple[str, ...]) -> FileSinkState:
        """Give the files staged before a barrier their names; the state to keep in the checkpoint."""
        named = tuple(
            PendingFile(
                checkpoint_id=checkpoint_id,
                staged=path,
                target=f"{self._sink.path}/part-{self._name}-{checkpoint_id}-{number}-{_unique(path)}.parquet",
            )
            for number, path in enumerate(staged)
        )
        with self._lock:
            self._pending += named
            return FileSinkState(pending=self._pending)

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish what a complete checkpoint holds; the files."""
        with self._lock:
            due = tuple(file for file in self._pending if file.checkpoint_id <= checkpoint_id)
        published = self._publish(due)
        with self._lock:
            self._pending = tuple(file for file in self._pending if file.checkpoint_id > checkpoint_id)
        return published

    def _publish(self, files: tuple[PendingFile, ...]) -> tuple[str, ...]:
        for file in files:
            self._rename(file)
        for folder in {file.staged.rsplit("/", 1)[0] for file in files}:
            self._filesystem.delete(folder)
        return tuple(file.target for file in files)

    def _rename(self, file: PendingFile) -> None:
        there, waiting = self._filesystem.exists(file.target), self._filesystem.exists(file.staged)
        if there and not waiting:
            return
        if there:
            raise SinkError(f"{file.target} is there already, and {file.staged} waits to become it")
        if not waiting:
            raise SinkError(f"{file.staged} was staged for {file.target} and is gone: the output would lack its rows")
        if not self._filesystem.rename(file.staged, file.target) and not self._filesystem.exists(file.target):
            raise SinkError(f"{file.staged} cannot be renamed to {file.target}")


def _in_a_name(text: str) -> str:
    """What may stand in a file name on every file system, and is another for another text."""
    readable = re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip(".")[:_READABLE]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


def _unique(path: str) -> str:
    """The part of a file name of Spark's that no other write has."""
    found = re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", path.rsplit("/", 1)[1])
    assert found is not None, f"Spark names its files with a UUID, but {path} has none"
    return found.group()
