"""Tests that times are converted to integers and back, exactly in each zone and year, rounded down before 1970 too."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from math import floor
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flykka.spark_bridge.functions.times import (
    first_micros_of,
    micros_of,
    millis_of,
    time_of_micros,
    time_of_millis,
)

ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia", "Africa/Monrovia"]
TIMES = st.datetimes(timezones=st.sampled_from([ZoneInfo(zone) for zone in ZONES]), allow_imaginary=False)


def seconds_since_1970(time: datetime) -> Fraction:
    """Return the seconds computed from the calendar and the time's own offset."""
    offset = time.utcoffset()
    assert offset is not None
    days = time.date().toordinal() - date(1970, 1, 1).toordinal()
    of_day = time.hour * 3600 + time.minute * 60 + time.second
    return days * 86400 + of_day + Fraction(time.microsecond, 10**6) - Fraction(offset / timedelta(seconds=1))


@given(TIMES)
@example(datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC))
@example(datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=ZoneInfo("Asia/Kolkata")))
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=ZoneInfo("America/New_York")))
@example(datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=1))
def test_times_convert_to_exact_numbers_rounded_down(time: datetime) -> None:
    seconds = seconds_since_1970(time)

    assert micros_of(time) == seconds * 10**6
    assert millis_of(time) == floor(seconds * 1000)


@given(st.datetimes())
def test_a_number_converts_back_to_a_time_in_utc(naive: datetime) -> None:
    time = naive.replace(tzinfo=UTC)

    assert time_of_micros(micros_of(time)) == time
    assert time_of_millis(millis_of(time)) == time.replace(microsecond=time.microsecond // 1000 * 1000)
    assert time_of_micros(micros_of(naive)).tzinfo is UTC


@pytest.mark.parametrize(("millis", "micros"), [(-1, -1000), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63))])
def test_the_first_microsecond_of_a_millisecond_fits_64_bits(millis: int, micros: int) -> None:
    assert first_micros_of(millis) == micros
