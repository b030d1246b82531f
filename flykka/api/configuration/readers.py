"""Readers of values: from a text, as a command line has it, or from what a file or a program has instead.

Each raises `ValueError` with the reason where the value is wrong.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import (
    UNLIMITED_TOLERABLE_FAILURES,
    CheckpointFailureReason,
    TolerableFailures,
)
from flykka.runtime.durations import duration_ms, positive_duration_ms
from flykka.runtime.errors import DurationError
from flykka.runtime.memory_size import positive_size_bytes

_FLAGS = {"true": True, "false": False}


def whole_number(least: int) -> Callable[[Any], int]:
    """A reader of whole numbers from `least`."""

    def read(said: Any) -> int:
        number = int(said) if isinstance(said, str) and said.isdecimal() else said
        if type(number) is not int or number < least:
            raise ValueError(f"{said!r} is not a whole number from {least}")
        return number

    return read


def permissions(said: Any) -> int:
    """Permissions of folders: octal digits such as `0750`, as chmod has them, or the number itself."""
    number = said
    if isinstance(said, str):
        is_octal = 0 < len(said) <= 4 and set(said) <= set("01234567")
        number = int(said, 8) if is_octal else None
    if type(number) is not int or number & 0o700 != 0o700 or number & ~0o777:
        raise ValueError(f"{said!r} is not the permissions of a folder whose owner may do all, from 0700 to 0777")
    return number


def positive_duration(said: Any) -> int:
    """The milliseconds of a length of time above zero."""
    try:
        return positive_duration_ms(said, "the length of time")
    except DurationError as wrong:
        raise ValueError(str(wrong)) from None


def duration(said: Any) -> int:
    """The milliseconds of a length of time, which may be 0."""
    try:
        return 0 if said == "0" else duration_ms(said, "the length of time")
    except DurationError as wrong:
        raise ValueError(str(wrong)) from None


def duration_or(word: str) -> Callable[[Any], int | str]:
    """A reader of lengths of time, or of this word."""
    return lambda said: word if said == word else duration(said)


def cores(said: Any) -> float:
    """A number of cores, which need not be whole."""
    try:
        number = math.nan if isinstance(said, bool) else float(said)
    except (TypeError, ValueError):
        number = math.nan
    if not number > 0:
        raise ValueError(f"{said!r} is not a number of cores above 0")
    return number


def memory_size(said: Any) -> int:
    """The bytes of a size such as `512mb`."""
    return positive_size_bytes(said)


def parallelism(said: Any) -> int | str:
    """A whole number from 1, or `auto`."""
    return "auto" if said == "auto" else whole_number(1)(said)


def tolerable_failures(said: Any) -> tuple[TolerableFailures, ...]:
    """Numbers of failed checkpoints by their causes, or `unlimited`."""
    read, cause_of = whole_number(0), choice(CheckpointFailureReason)
    numbers = {
        cause_of(cause): UNLIMITED_TOLERABLE_FAILURES if number == "unlimited" else read(number)
        for cause, number in by_name(said).items()
    }
    return tuple(TolerableFailures(reason=reason, number=numbers[reason]) for reason in sorted(numbers))


def words(kind: type[StrEnum]) -> str:
    """The values of an enum as they are written: `region|full`."""
    return "|".join(_written(each.value) for each in kind)


def choice(kind: type[StrEnum]) -> Callable[[Any], Any]:
    """A reader of the values of an enum, in capitals or not, with hyphens or underscores."""
    by_word = {_written(each.value): each for each in kind}
    return lambda said: by_word[_known(said, by_word)]


def word(*known: str) -> Callable[[Any], str]:
    """A reader of words, which gives them in capitals, as the enum has them that is named so."""
    return lambda said: _known(said, known).upper()


def text(said: Any) -> str:
    """A text that is not empty."""
    if not isinstance(said, str) or not said.strip():
        raise ValueError(f"{said!r} is not a text" if not isinstance(said, str) else "it is empty")
    return said


def path(said: Any) -> str:
    """A path or an address, as text or as a path of Python's."""
    return text(os.fspath(said) if isinstance(said, os.PathLike) else said)


def paths(said: Any) -> tuple[str, ...]:
    """Paths in a list; of a text, those between its commas."""
    each = said.split(",") if isinstance(said, str) else said
    if not isinstance(each, list | tuple) or not each:
        raise ValueError(f"{said!r} is not a list of paths")
    return tuple(path(one) for one in each)


def by_name(said: Any) -> dict[str, str]:
    """Texts by name in a mapping; of a text, `NAME=TEXT` between its commas."""
    if isinstance(said, str):
        pairs = [pair.partition("=") for pair in said.split(",")]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError(f"{said!r} is not of the form NAME=TEXT,NAME=TEXT")
        return {name.strip(): value for name, _, value in pairs}
    if not isinstance(said, dict) or not said:
        raise ValueError(f"{said!r} has no texts by name")
    wrong = [name for name, value in said.items() if not isinstance(name, str) or isinstance(value, dict | list)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} does not name a text")
    return {name: str(value) for name, value in said.items()}


def paths_by_name(said: Any) -> dict[str, str]:
    """Paths by name, as `by_name` has texts."""
    return {name: path(value) for name, value in by_name(said).items()}


def flag(said: Any) -> bool:
    """`true` or `false`."""
    found = _FLAGS.get(said.strip().lower()) if isinstance(said, str) else said
    if type(found) is not bool:
        raise ValueError(f"{said!r} is neither true nor false")
    return found


def stated(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`read`, with its `ProgramError` as a `ValueError`."""

    def reading(said: Any) -> Any:
        try:
            return read(said)
        except ProgramError as wrong:
            raise ValueError(str(wrong)) from None

    return reading


def _known(said: Any, known: Iterable[str]) -> str:
    written = _written(said) if isinstance(said, str) else ""
    if written not in known:
        raise ValueError(f"{said!r} is none of {', '.join(known)}")
    return written


def _written(value: str) -> str:
    return value.strip().lower().replace("_", "-")
