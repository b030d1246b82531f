"""Sizes of memory and files as users write them: `"128MB"`, `"1 gb"`, or a whole number of bytes."""

from __future__ import annotations

import re

MemorySize = str | int
"""A size such as `"128MB"`, `"64 kb"` or 1048576."""

# The units of Flink's MemorySize: a kilobyte has 1024 bytes.
_SHIFTS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}
_TEXT = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def positive_size_bytes(size: MemorySize, name: str = "size") -> int:
    """Return a size above zero in bytes. Errors call it `name`.

    Raises:
        ValueError: the size cannot be parsed, or is not above zero.
    """
    match = _TEXT.fullmatch(str(size)) if isinstance(size, str | int) and not isinstance(size, bool) else None
    shift = None if match is None else _SHIFTS.get(match[2].lower())
    if match is None or shift is None or not int(match[1]):
        raise ValueError(f"{name} {size!r} is not of the form '128MB', '64kb', '1GB' or a number of bytes above 0")
    return int(match[1]) << shift
