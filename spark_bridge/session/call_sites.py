"""Lines of the user's script in Spark's errors, and none of flykka's.

PySpark notes with each Column the line that makes it, which takes ten calls of the JVM, and names that line in errors.
A line of ours tells a user nothing.
"""

from __future__ import annotations

import sys
from types import FrameType

from pyspark.errors import utils

_is_debugging_enabled = utils.is_debugging_enabled


def note_lines_of_users() -> None:
    """Let PySpark note no line of flykka's."""
    utils.is_debugging_enabled = _is_called_by_user


def _is_called_by_user() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module(frame).startswith("pyspark."):
        frame = frame.f_back
    return (frame is None or not _module(frame).startswith("flykka.")) and _is_debugging_enabled()


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))
