"""Finds the line of the user's code that caused a failure: the last line that belongs to no library."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.errors import QueryContextType

from flykka.spark_bridge.diagnosis.user_files import is_users
from flykka.spark_bridge.errors import UserLine

if TYPE_CHECKING:
    from pyspark.errors.exceptions.captured import CapturedException

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)')


def line_of(raised: BaseException) -> UserLine | None:
    frames = (
        UserLine(file=frame.filename, line=frame.lineno or 0, function=frame.name, source=frame.line or "")
        for frame in traceback.extract_tb(raised.__traceback__)
    )
    return _last_of_user(frames)


def line_in_traceback(lines: list[str]) -> UserLine | None:
    return _last_of_user(_frames(lines))


def frames_of_user(text: str) -> list[UserLine]:
    """Return the lines of the user's code in the last traceback of a text, outermost first."""
    begin = text.rfind("Traceback (most recent call last):")
    return [frame for frame in _frames(text[begin:].splitlines()) if is_users(frame.file)] if begin >= 0 else []


def _frames(lines: list[str]) -> Iterator[UserLine]:
    return (
        UserLine(
            file=match["file"],
            line=int(match["line"]),
            function=match["name"],
            source=lines[number + 1].strip() if number + 1 < len(lines) else "",
        )
        for number, line in enumerate(lines)
        if (match := _FRAME.match(line))
    )


def line_in_query(raised: CapturedException) -> UserLine | None:
    for context in raised.getQueryContext() or ():
        if context.contextType() is not QueryContextType.DataFrame:
            continue  # A context of SQL has a text instead of a line.
        file, separator, line = str(context.callSite()).rpartition(":")
        if separator and line.isdigit() and is_users(file):
            source = linecache.getline(file, int(line)).strip()
            return UserLine(file=file, line=int(line), function=str(context.fragment()), source=source)
    return None


def _last_of_user(frames: Iterable[UserLine]) -> UserLine | None:
    return next((frame for frame in reversed([*frames]) if is_users(frame.file)), None)
