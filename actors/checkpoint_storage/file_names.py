"""Names that users give, as names of files."""

from __future__ import annotations

import hashlib
import re

_READABLE = 64
_DIGITS = 8


def in_a_name(text: str) -> str:
    """A form of the text that every file system allows in a name, different for different texts.

    `<readable>-<digest>`, of which the readable part has no hyphen: several of them in one name can be told apart.
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip(".")[:_READABLE]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
