"""Parsers of option values: from the text of a command line, or from a value in a file or a program.

Each parser raises `ValueError` with a reason if the value is invalid.
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
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if type(number) is not int or number < least:
            raise ValueError(f"{value!r} is not a whole number from {least}")
        return number

    return read


def permissions(value: Any) -> int:
    """Parse folder permissions: octal digits such as `0750`, as for chmod, or an integer."""
    number = value
    if isinstance(value, str):
        is_octal = 0 < len(value) <= 4 and set(value) <= set("01234567")
        number = int(value, 8) if is_octal else None
    if type(number) is not int or number & 0o700 != 0o700 or number & ~0o777:
        raise ValueError(f"{value!r} is not a permission from 0700 to 0777, which lets the owner do everything")
    return number


def positive_duration(value: Any) -> int:
    try:
        return positive_duration_ms(value, "the length of time")
    except DurationError as wrong:
        raise ValueError(str(wrong)) from None


def duration(value: Any) -> int:
    """Parse a duration, which may be 0, into milliseconds."""
    try:
        return 0 if value == "0" else duration_ms(value, "the length of time")
    except DurationError as wrong:
        raise ValueError(str(wrong)) from None


def duration_or(word: str) -> Callable[[Any], int | str]:
    return lambda value: word if value == word else duration(value)


def cores(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number > 0:
        raise ValueError(f"{value!r} is not a number of cores above 0")
    return number


def memory_size(value: Any) -> int:
    return positive_size_bytes(value)


def parallelism(value: Any) -> int | str:
    return "auto" if value == "auto" else whole_number(1)(value)


def tolerable_failures(value: Any) -> tuple[TolerableFailures, ...]:
    """Parse the tolerable numbers of failures by cause; a number may be `unlimited`."""
    read, cause_of = whole_number(0), choice(CheckpointFailureReason)
    numbers = {
        cause_of(cause): UNLIMITED_TOLERABLE_FAILURES if number == "unlimited" else read(number)
        for cause, number in by_name(value).items()
    }
    return tuple(TolerableFailures(reason=reason, number=numbers[reason]) for reason in sorted(numbers))


def words(kind: type[StrEnum]) -> str:
    """Format the values of an enum for help texts: `region|full`."""
    return "|".join(_normalized(each.value) for each in kind)


def choice(kind: type[StrEnum]) -> Callable[[Any], Any]:
    """Return a parser of the values of an enum, ignoring case and accepting hyphens for underscores."""
    by_word = {_normalized(each.value): each for each in kind}
    return lambda value: by_word[_checked_choice(value, by_word)]


def word(*allowed: str) -> Callable[[Any], str]:
    """Return a parser that accepts the words `allowed`, and returns them in capitals."""
    return lambda value: _checked_choice(value, allowed).upper()


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a string" if not isinstance(value, str) else "it is empty")
    return value


def path(value: Any) -> str:
    return text(os.fspath(value) if isinstance(value, os.PathLike) else value)


def paths(value: Any) -> tuple[str, ...]:
    """Parse a list of paths, or a text with commas between them."""
    each = value.split(",") if isinstance(value, str) else value
    if not isinstance(each, list | tuple) or not each:
        raise ValueError(f"{value!r} is not a list of paths")
    return tuple(path(one) for one in each)


def by_name(texts: Any) -> dict[str, str]:
    """Parse a mapping of texts by name, or a text of the form `NAME=TEXT,NAME=TEXT`."""
    if isinstance(texts, str):
        pairs = [pair.partition("=") for pair in texts.split(",")]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError(f"{texts!r} is not of the form NAME=TEXT,NAME=TEXT")
        return {name.strip(): value for name, _, value in pairs}
    if not isinstance(texts, dict) or not texts:
        raise ValueError(f"{texts!r} does not map names to texts")
    wrong = [name for name, value in texts.items() if not isinstance(name, str) or isinstance(value, dict | list)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} does not name a text")
    return {name: str(value) for name, value in texts.items()}


def paths_by_name(texts: Any) -> dict[str, str]:
    return {name: path(value) for name, value in by_name(texts).items()}


def flag(value: Any) -> bool:
    parsed = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else value
    if type(parsed) is not bool:
        raise ValueError(f"{value!r} is neither true nor false")
    return parsed


def stated(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap `read` so that it raises `ValueError` instead of `ProgramError`."""

    def reading(value: Any) -> Any:
        try:
            return read(value)
        except ProgramError as wrong:
            raise ValueError(str(wrong)) from None

    return reading


def _checked_choice(value: Any, allowed: Iterable[str]) -> str:
    normalized = _normalized(value) if isinstance(value, str) else ""
    if normalized not in allowed:
        raise ValueError(f"{value!r} is not one of {', '.join(allowed)}")
    return normalized


def _normalized(value: str) -> str:
    return value.strip().lower().replace("_", "-")
