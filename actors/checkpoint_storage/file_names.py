"""Names of files: of what users have named, and of savepoints (Flink's `savepoint-<part of the job's id>-<part>`)."""

from __future__ import annotations

import hashlib
import re

from flykka.messages.wire.ids import JobId

_READABLE = 64
_DIGITS = 8


def in_a_name(text: str) -> str:
    """A form of the text that every file system allows in a name, different for different texts.

    `<readable>-<digest>`, of which the readable part has no hyphen: several of them in one name can be told apart.
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip(".")[:_READABLE]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


SAVEPOINT = "savepoint-"

_SHORT = 6


def savepoint_prefix(job_id: JobId) -> str:
    return f"{SAVEPOINT}{job_id[:_SHORT]}"


def is_savepoint(path: str) -> bool:
    """True if this is the folder of a savepoint, by its name; a checkpoint's is named after its number."""
    return path.rstrip("/").rsplit("/", 1)[-1].startswith(SAVEPOINT)
