"""Durations as users write them: `"10s"`, `"500ms"`, a `timedelta`, or a whole number of milliseconds."""

from __future__ import annotations

import re
from datetime import timedelta

from flykka.runtime.errors import DurationError

Duration = str | timedelta | int
"""A duration such as `"1 h"`, `"500ms"`, `timedelta(seconds=1)` or 1000."""

# The units of Flink's TimeUtils and their names, down to the millisecond.
_UNIT_MS = {
    "ms": 1,
    "milli": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_PLURAL = {f"{unit}s": factor for unit, factor in _UNIT_MS.items() if len(unit) > 2}
_TEXT = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def duration_ms(duration: Duration, name: str = "duration") -> int:
    """Return a duration in milliseconds, which may be zero. Errors call it `name`.

    Raises:
        DurationError: the duration cannot be parsed, is negative, or is not a whole number of milliseconds.
    """
    ms = signed_duration_ms(duration, name)
    if ms < 0:
        raise DurationError(f"{name} {duration!r} is negative")
    return ms


def positive_duration_ms(duration: Duration, name: str = "duration") -> int:
    """Return a duration above zero in milliseconds. Raises the errors of `duration_ms`."""
    ms = duration_ms(duration, name)
    if ms == 0:
        raise DurationError(f"{name} {duration!r} must be longer than 0 ms")
    return ms


def format_ms(ms: int) -> str:
    """Format a duration as a short text: `850 ms`, `1.2 s`, `3 min 5 s`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, rest = divmod(ms, 60_000)
    return f"{minutes} min {rest // 1_000} s"


def signed_duration_ms(duration: Duration, name: str = "duration") -> int:
    """Return a duration in milliseconds, which may be negative, such as `"-8h"`.

    Raises:
        DurationError: the duration cannot be parsed, or is not a whole number of milliseconds.
    """
    match duration:
        case bool():
            raise DurationError(f"{name} {duration!r} is not a length of time")
        case int():
            return duration
        case timedelta():
            ms, rest = divmod(duration, timedelta(milliseconds=1))
            if rest:
                raise DurationError(f"{name} {duration!r} is not a whole number of milliseconds")
            return ms
        case str():
            return _read(duration, name)
        case _:
            raise DurationError(
                f"{name} {duration!r} is neither a text such as '10s', nor a timedelta, nor a whole number"
                " of milliseconds"
            )


def _read(text: str, name: str) -> int:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise DurationError(f"{name} {text!r} is not of the form '10s', '500ms', '5 min' or '1h'")
    unit = match[2].lower()
    factor = _UNIT_MS.get(unit) or _PLURAL.get(unit)
    if factor is None:
        raise DurationError(f"{name} {text!r} has the unknown unit {match[2]!r}; known are ms, s, min, h and d")
    return int(match[1]) * factor
