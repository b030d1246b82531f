"""Names of savepoint folders, as in Flink: `savepoint-<first part of the job's id>-<unique part>`."""

from __future__ import annotations

from flykka.messages.wire.ids import JobId

SAVEPOINT = "savepoint-"

_SHORT = 6


def savepoint_prefix(job_id: JobId) -> str:
    return f"{SAVEPOINT}{job_id[:_SHORT]}"


def is_savepoint(path: str) -> bool:
    """True if this is the folder of a savepoint, by its name; a checkpoint's is named after its number."""
    return path.rstrip("/").rsplit("/", 1)[-1].startswith(SAVEPOINT)
