"""Short forms of durations, sizes, counts and times."""

from __future__ import annotations

import pytest

from flykka.messages.wire.failure import SerializedThrowable
from flykka.views.text.formats import format_bytes, format_count, format_event_time, format_lag

HOUR = 3_600_000
DAY = 24 * HOUR


def test_sizes_are_written_in_short_form() -> None:
    sizes = [0, 1_023, 1_024, 1_536, 3 * 1_024**3, 5 * 1_024**4]

    assert [format_bytes(size) for size in sizes] == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "3.0 GiB", "5.0 TiB"]


def test_counts_are_written_in_full_up_to_a_limit() -> None:
    counts = [0, 999.6, 336_776, 9_999_999, 12_345_678, 45_000_000_000]

    assert [format_count(count) for count in counts] == ["0", "1,000", "336,776", "9,999,999", "12.3 M", "45.0 G"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "-"), (0, "1970-01-01 00:00:00"), (1_370_059_200_500, "2013-06-01 04:00:00"), (2**62, f"{2**62} ms")],
)
def test_event_time_is_a_calendar_time_if_it_is_in_range(ms: int | None, text: str) -> None:
    assert format_event_time(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (850, "850 ms"),
        (1_200, "1.2 s"),
        (90_000, "1 min"),
        (3 * HOUR, "3 h"),
        (5 * DAY, "5 d"),
        (13 * 365 * DAY, "13 y"),
        (-1_200, "-1.2 s"),
    ],
)
def test_a_lag_is_written_in_its_largest_suitable_unit(ms: int | None, text: str) -> None:
    assert format_lag(ms) == text


def test_a_failure_is_one_line() -> None:
    cause = SerializedThrowable(type_name="py4j.protocol.SomeError", message="\na worker died\n\tat java.lang.Thread")

    assert cause.headline == "SomeError: a worker died"
