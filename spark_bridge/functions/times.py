"""Times as whole numbers since the epoch, and as Python's datetimes in UTC: every conversion of a single one.

A millisecond begins with its first microsecond, before 1970 too: numbers are rounded down, never towards zero. Of whole
columns see `worker.time_columns`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MICROS_PER_MS = 1000

_MIN, _MAX = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def in_ms(micros: int) -> int:
    return micros // MICROS_PER_MS


def first_micros_of(millis: int) -> int:
    """Return the microsecond with which a millisecond begins, as far as 64 bits reach."""
    return max(_MIN, min(_MAX, millis * MICROS_PER_MS))


def micros_of(time: datetime) -> int:
    """Return the microseconds of a time; one without a zone is in UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def millis_of(time: datetime) -> int:
    """Return the millisecond that a time is in; one without a zone is in UTC."""
    return in_ms(micros_of(time))


def time_of_micros(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def time_of_millis(millis: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=millis)
