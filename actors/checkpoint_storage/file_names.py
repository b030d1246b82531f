"""File names for texts that users choose, and for savepoints (Flink's `savepoint-<part of the job's id>-<part>`)."""

from __future__ import annotations

import hashlib
import re

from flykka.messages.wire.ids import JobId

_READABLE = 64
_DIGITS = 8


def file_name_part(text: str) -> str:
    """Return a file name for the text that every file system accepts. Different texts get different names.

    The format is `<readable>-<digest>`. The readable part has no hyphen, so that several can be combined in one name.
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip(".")[:_READABLE]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


SAVEPOINT = "savepoint-"

_SHORT = 6


def savepoint_prefix(job_id: JobId) -> str:
    return f"{SAVEPOINT}{job_id[:_SHORT]}"


def is_savepoint(path: str) -> bool:
    """Return whether the folder's name is that of a savepoint. A checkpoint's folder is named after its id."""
    return path.rstrip("/").rsplit("/", 1)[-1].startswith(SAVEPOINT)
