"""How the folder of a savepoint is called, as in Flink: `savepoint-<begin of the job's id>-<what no other has>`."""

from __future__ import annotations

from flykka.messages.wire.ids import JobId

SAVEPOINT = "savepoint-"

_SHORT = 6


def savepoint_prefix(job_id: JobId) -> str:
    """How the names of a job's savepoints begin."""
    return f"{SAVEPOINT}{job_id[:_SHORT]}"


def is_savepoint(path: str) -> bool:
    """Whether this is the folder of a savepoint, by its name; a checkpoint's is called after its number."""
    return path.rstrip("/").rsplit("/", 1)[-1].startswith(SAVEPOINT)
