"""Files with the last turns before a job's failure, next to its checkpoints or in the user's temporary folder.

The path is <checkpoint directory>/<job id>/flight-record.trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from flykka.actors.checkpoint_storage.private_files import move_file
from flykka.client.checkpoints import earlier_checkpoint
from flykka.errors import FlightRecordError
from flykka.messages.monitoring.flight_record import FlightRecordWritten
from flykka.runtime.temporary_folders import TemporaryFolder, user_folder
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder

if TYPE_CHECKING:
    from flykka.messages.graph.job_graph import JobGraph
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.runtime.recording import Recorder

_MODE = 0o600
"""The permissions of a flight record. It contains the job's messages and therefore user data."""

_OF_CHECKPOINT = frozenset({"CheckpointFormatError", "CheckpointStateMissingError", "CheckpointVersionError"})

WriteFlightRecord = Callable[[], str]
"""Writes the flight record and returns its path. May block, and may raise `FlightRecordError`."""


def is_of_checkpoint(cause: SerializedThrowable) -> bool:
    """Return whether the job failed because a file of the checkpoint that it starts from is damaged or missing."""
    return cause.type_name in _OF_CHECKPOINT


def record_failure(write: WriteFlightRecord | None, damaged: str | None) -> FlightRecordWritten:
    """Write the flight record, and find an undamaged checkpoint before a `damaged` one. Blocks.

    Raises:
        FlightRecordError: the flight record cannot be written. The error names the file.
    """
    return FlightRecordWritten(
        path="" if write is None else write(),
        earlier_checkpoint=None if damaged is None else earlier_checkpoint(damaged),
    )


def flight_record_path(job_graph: JobGraph) -> str:
    return f"{job_graph.checkpointing.directory.rstrip('/')}/{job_graph.job_id}/flight-record.trace"


def surviving_flight_record_path(job_graph: JobGraph) -> str:
    """Return a path in the user's temporary folder, for a job whose checkpoints are deleted with its environment.

    Raises `PermissionError` if the folder belongs to another user.
    """
    return os.fspath(user_folder() / f"flykka-flight-record-{job_graph.job_id}.trace")


def flight_record_writer(recorder: Recorder | None, path: str) -> WriteFlightRecord | None:
    """Return a function that writes the flight record, or None if nothing is recorded in memory."""
    match recorder:
        case FlightRecorder():
            return partial(_write, recorder, path)
        case TraceRecorder():
            return partial(_dumped, recorder)
        case _:
            return None


def _dumped(recorder: TraceRecorder) -> str:
    try:
        recorder.dump()
    except OSError as failure:
        raise FlightRecordError(f"{recorder.path}: {type(failure).__name__}: {failure}") from failure
    return os.fspath(recorder.path)


def _write(recorder: FlightRecorder, path: str) -> str:
    try:
        fs, location = url_to_fs(path)
        if isinstance(fs, LocalFileSystem):
            recorder.dump(location, mode=_MODE)
            return str(location)
        with TemporaryFolder("flight-record") as folder:
            local = os.fspath(folder / "flight-record.trace")
            recorder.dump(local)
            fs.makedirs(location.rpartition("/")[0], exist_ok=True)
            fs.put_file(local, f"{location}.inprogress")
            move_file(fs, f"{location}.inprogress", location)
        return str(fs.unstrip_protocol(location))
    except Exception as failure:
        # Any error of a file system is reported together with the job's failure, never instead of it.
        raise FlightRecordError(f"{path}: {type(failure).__name__}: {failure}") from failure
