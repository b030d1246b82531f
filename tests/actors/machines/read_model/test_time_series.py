"""A time series has a limited number of points, however long a job runs."""

from __future__ import annotations

import pytest

from flykka.actors.machines.read_model.job_read_model import POINTS, STEP_MS, Peaks, RowCounts
from flykka.messages.monitoring.job_details import TimeSeries


def test_a_step_sums_its_rows_and_an_empty_step_is_zero() -> None:
    counts = RowCounts()
    counts.start_at(1_000)

    for at_ms, rows in ((1_100, 10), (1_900, 20), (3_500, 5)):
        counts.record(at_ms, rows)

    assert counts.per_second(5_000) == TimeSeries(start_ms=1_000, step_ms=STEP_MS, values=(30.0, 0.0, 5.0, 0.0))


@pytest.mark.parametrize("seconds", [1, POINTS, POINTS + 1, 100_000])
def test_a_series_loses_no_row_and_stays_bounded(seconds: int) -> None:
    counts = RowCounts()
    counts.start_at(0)

    for second in range(seconds):
        counts.record(second * 1_000, 7)

    series = counts.per_second(seconds * 1_000)
    assert POINTS / 2 <= len(series.values) <= POINTS or seconds < POINTS
    assert len(series.values) * series.step_ms >= seconds * 1_000
    assert series.values[0] == 7.0
    assert sum(value for value in counts.values if value is not None) == 7 * seconds


def test_a_peak_remains_visible_when_steps_become_longer() -> None:
    lags = Peaks()
    lags.start_at(0)
    lags.record(3_000, 90_000)

    lags.record(10_000_000, 5)

    assert max(value for value in lags.series().values if value is not None) == 90_000
    assert len(lags.series().values) <= POINTS


def test_a_step_starts_only_once() -> None:
    lags = Peaks()
    lags.start_at(0)

    asked = [lags.begins_step(at_ms) for at_ms in (0, 400, 999, 1_000, 1_500, 4_000)]

    assert asked == [True, False, False, True, False, True]


def test_rows_recorded_before_the_start_belong_to_the_first_step() -> None:
    counts = RowCounts()
    counts.start_at(5_000)

    counts.record(4_000, 3)

    assert counts.per_second(6_000).values == (3.0,)
