"""What a user has called something, in the name of a file."""

from __future__ import annotations

import hashlib
import re

_READABLE = 64
_DIGITS = 8


def in_a_name(text: str) -> str:
    """What may stand in a file name on every file system, and is another for another text.

    `<readable>-<digest>`, of which the readable part has no hyphen: several of them in one name can be told apart.
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip(".")[:_READABLE]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
