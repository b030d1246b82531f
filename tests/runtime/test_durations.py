"""Parsing and printing of durations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flykka.runtime.durations import Duration, duration_ms, format_ms, positive_duration_ms, signed_duration_ms
from flykka.runtime.errors import DurationError


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("500ms", 500),
        ("1s", 1_000),
        (" 10 s ", 10_000),
        ("2 min", 120_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("1 hour", 3_600_000),
        ("3 Days", 259_200_000),
        ("20 seconds", 20_000),
        (timedelta(seconds=1.5), 1_500),
        (250, 250),
        (0, 0),
    ],
)
def test_a_duration_is_parsed_to_the_millisecond(written: Duration, ms: int) -> None:
    assert duration_ms(written) == ms


@pytest.mark.parametrize("written", ["", "s", "1", "1.5s", "-1s", "1 fortnight", "1 ss", "1s 5ms", True, 1.5, None])
def test_an_invalid_duration_is_refused_with_its_value(written: object) -> None:
    with pytest.raises(DurationError) as refused:
        duration_ms(written, "checkpoint interval")  # type: ignore[arg-type]

    assert repr(written) in str(refused.value)
    assert str(refused.value).startswith("checkpoint interval ")


@pytest.mark.parametrize("written", [-1, timedelta(seconds=-1), timedelta(microseconds=1)])
def test_a_duration_is_a_nonnegative_integer_of_milliseconds(written: Duration) -> None:
    with pytest.raises(DurationError):
        duration_ms(written)


@pytest.mark.parametrize(
    ("written", "ms"), [("-8h", -28_800_000), (timedelta(seconds=-1), -1_000), (-1, -1), ("2s", 2_000)]
)
def test_a_duration_may_be_negative_if_allowed(written: Duration, ms: int) -> None:
    assert signed_duration_ms(written) == ms


def test_zero_is_refused_if_a_positive_duration_is_required() -> None:
    with pytest.raises(DurationError, match="must be longer than 0 ms"):
        positive_duration_ms("0s")


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (1_234, "1.2 s"), (59_949, "59.9 s"), (185_000, "3 min 5 s")]
)
def test_a_duration_is_printed_in_its_shortest_form(ms: int, text: str) -> None:
    assert format_ms(ms) == text
