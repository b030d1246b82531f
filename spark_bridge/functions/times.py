"""Single times as integers since the epoch and as Python datetimes in UTC, with all conversions between them.

A millisecond begins with its first microsecond, before 1970 too: times are rounded down, never towards zero.
`worker.time_columns` converts columns of times.
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
    """Return the first microsecond of a millisecond, limited to 64 bits."""
    return max(_MIN, min(_MAX, millis * MICROS_PER_MS))


def micros_of(time: datetime) -> int:
    """Return a time in microseconds. A time without a time zone is interpreted as UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def millis_of(time: datetime) -> int:
    """Return a time in milliseconds, rounded down. A time without a time zone is interpreted as UTC."""
    return in_ms(micros_of(time))


def time_of_micros(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def time_of_millis(millis: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=millis)
