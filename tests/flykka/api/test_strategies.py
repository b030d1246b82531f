"""Windows, watermarks and restart strategies as users write them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from flykka.api.configuration.restart_strategies import RestartStrategies
from flykka.api.streams.side_outputs import OutputTag
from flykka.api.streams.watermark_strategy import WatermarkStrategy
from flykka.errors import DurationError, ProgramError
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    MonotonyViolationHandler,
    NoRestartStrategyConfiguration,
    WatermarkAlignment,
)
from flykka.spark_bridge.functions.windowing.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows


def test_a_window_has_a_size_and_an_offset_in_milliseconds() -> None:
    windows = TumblingEventTimeWindows.of("1h", offset=timedelta(minutes=15))

    assert (windows.size_ms, windows.offset_ms) == (3_600_000, 900_000)


def test_a_negative_offset_equals_the_offset_plus_the_window_size() -> None:
    tumbling = TumblingEventTimeWindows.of("1d", offset="-8h")
    sliding = SlidingEventTimeWindows.of("1d", "1h", offset=timedelta(minutes=-15))

    # Equal windows have the same state, so a job may switch from one form to the other.
    assert tumbling == TumblingEventTimeWindows.of("1d", offset="16h")
    assert sliding == SlidingEventTimeWindows.of("1d", "1h", offset="45min")
    assert tumbling.next_start(0) == 16 * 3_600_000


@pytest.mark.parametrize(("size", "offset"), [("0s", 0), ("1h", "1h"), ("1h", "2h"), ("1h", "-1h"), ("1h", "soon")])
def test_invalid_window_sizes_and_offsets_are_refused(size: str, offset: str | int) -> None:
    with pytest.raises(DurationError):
        TumblingEventTimeWindows.of(size, offset)


def test_sliding_windows_have_a_slide() -> None:
    windows = SlidingEventTimeWindows.of("1h", "15min", offset="5min")

    assert (windows.size_ms, windows.slide_ms, windows.offset_ms) == (3_600_000, 900_000, 300_000)


@pytest.mark.parametrize(
    ("size", "slide", "offset", "named"),
    [
        ("0s", "1s", 0, "window size"),
        ("1h", "0s", 0, "window slide '0s' must be longer"),
        ("1h", "-5min", 0, "window slide"),
        ("1h", "10min", "10min", "window offset '10min' is not shorter than the window slide '10min'"),
        ("1h", "10min", "-10min", "window offset '-10min' is not shorter than the window slide '10min'"),
    ],
)
def test_impossible_sliding_windows_are_refused(size: str, slide: str, offset: str | int, named: str) -> None:
    with pytest.raises(DurationError, match=named):
        SlidingEventTimeWindows.of(size, slide, offset)


def test_tags_are_equal_by_id() -> None:
    assert OutputTag("late") == OutputTag("late")
    assert OutputTag("late") != OutputTag("later")


@pytest.mark.parametrize("nothing", ["", None, 1])
def test_a_tag_without_an_id_is_refused(nothing: object) -> None:
    with pytest.raises(ProgramError, match="the id of an OutputTag must be a non-empty string"):
        OutputTag(nothing)  # type: ignore[arg-type]


def test_the_watermark_delay_is_the_bounded_out_of_orderness() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("time_hour")

    assert strategy == WatermarkStrategy(delay_ms=3_600_000, timestamp_column="time_hour")


def test_the_delay_is_zero_for_ascending_timestamps_and_absent_without_watermarks() -> None:
    assert WatermarkStrategy.for_monotonous_timestamps().delay_ms == 0
    assert WatermarkStrategy.no_watermarks().delay_ms is None


def test_the_violation_handler_of_an_ascending_strategy_is_configurable() -> None:
    ascending = WatermarkStrategy.for_monotonous_timestamps()

    assert ascending.on_violation is MonotonyViolationHandler.IGNORE
    assert ascending.with_violation_handler("FAIL").on_violation is MonotonyViolationHandler.FAIL
    with pytest.raises(ProgramError, match="one of IGNORE, LOG, FAIL, not 'PANIC'"):
        ascending.with_violation_handler("PANIC")


@pytest.mark.parametrize(
    "strategy",
    [
        WatermarkStrategy.no_watermarks(),
        WatermarkStrategy.for_bounded_out_of_orderness("1s"),
        WatermarkStrategy.for_punctuated_watermarks("is_mark"),
    ],
)
def test_a_violation_handler_is_refused_for_unordered_strategies(strategy: WatermarkStrategy) -> None:
    with pytest.raises(ProgramError, match="only for_monotonous_timestamps"):
        strategy.with_violation_handler(MonotonyViolationHandler.FAIL)


def test_an_idle_timeout_limits_how_long_a_source_holds_back_others() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness("30s")

    assert (strategy.delay_ms, strategy.idle_timeout_ms) == (0, 30_000)
    with pytest.raises(DurationError, match="idle timeout"):
        strategy.with_idleness(0)


def test_a_quiet_source_may_have_an_idle_timeout_too() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5s").with_quiet_period("30s")

    assert (strategy.delay_ms, strategy.quiet_period_ms) == (5000, 30_000)
    with pytest.raises(DurationError, match="quiet period"):
        strategy.with_quiet_period(0)
    assert strategy.with_idleness("1s") == replace(strategy, idle_timeout_ms=1000)


def test_a_source_may_be_aligned_with_a_group() -> None:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness("5s")

    aligned = bounded.with_watermark_alignment("orders", "1min", "200ms")

    assert aligned.alignment == WatermarkAlignment(group="orders", max_drift_ms=60_000, update_interval_ms=200)
    assert bounded.with_watermark_alignment("orders", "0s").alignment == WatermarkAlignment(
        group="orders", max_drift_ms=0, update_interval_ms=1_000
    )
    with pytest.raises(ProgramError, match="the group of aligned sources must be a name"):
        bounded.with_watermark_alignment("", "1min")
    with pytest.raises(ProgramError, match=r"no_watermarks\(\) has none"):
        WatermarkStrategy.no_watermarks().with_watermark_alignment("orders", "1min")
    with pytest.raises(DurationError):
        bounded.with_watermark_alignment("orders", "1min", "0s")


def test_fixed_delay_restarts_may_be_limited_or_unlimited() -> None:
    limited = RestartStrategies.fixed_delay_restart(attempts=3, delay="10s")
    endless = RestartStrategies.fixed_delay_restart()

    assert limited == FixedDelayRestartStrategyConfiguration(attempts=3, delay_ms=10_000)
    assert endless == FixedDelayRestartStrategyConfiguration(attempts=None, delay_ms=0)


def test_the_no_restart_strategy_has_no_attempts() -> None:
    assert RestartStrategies.no_restart() == NoRestartStrategyConfiguration()


def test_a_negative_number_of_restarts_is_refused() -> None:
    with pytest.raises(ProgramError, match="number of restarts must be a whole number from 0, not -1"):
        RestartStrategies.fixed_delay_restart(attempts=-1)


def test_failure_rates_and_exponential_delays_accept_durations() -> None:
    rate = RestartStrategies.failure_rate_restart(3, "5min", delay="10s")
    growing = RestartStrategies.exponential_delay_restart("1s", "1min", 1.5, "1h", 0.2)

    assert rate == FailureRateRestartStrategyConfiguration(max_failures=3, interval_ms=300_000, delay_ms=10_000)
    assert growing == ExponentialDelayRestartStrategyConfiguration(
        initial_backoff_ms=1_000,
        max_backoff_ms=60_000,
        backoff_multiplier=1.5,
        reset_backoff_threshold_ms=3_600_000,
        jitter_factor=0.2,
        max_same_failures=10,
    )


def test_an_exponential_delay_that_does_not_grow_is_refused() -> None:
    with pytest.raises(ProgramError, match="the first delay, 2000 ms, is above the longest, 1000 ms"):
        RestartStrategies.exponential_delay_restart("2s", "1s")
    with pytest.raises(ProgramError, match="the multiplier of the delay must be above 1, not 1"):
        RestartStrategies.exponential_delay_restart(backoff_multiplier=1)
    with pytest.raises(ProgramError, match="number of times that the same failure may occur must be 1 or more, not 0"):
        RestartStrategies.exponential_delay_restart(max_same_failures=0)
