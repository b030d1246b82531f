"""Restart strategies: whether a failed job restarts, and after which delay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.restart.restart_strategy import (
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    RestartBackoff,
    RestartStrategy,
    restart_strategy,
    restarts_without_end,
)
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)

GROWING = ExponentialDelayRestartStrategyConfiguration(
    initial_backoff_ms=100,
    max_backoff_ms=350,
    backoff_multiplier=2.0,
    reset_backoff_threshold_ms=1_000,
    jitter_factor=0.0,
)
RATE = FailureRateRestartStrategyConfiguration(max_failures=2, interval_ms=100, delay_ms=7)


def allowed(strategy: RestartStrategy, *failures: int) -> list[bool]:
    """Return, for failures at these times, whether each is followed by a restart."""
    decisions = []
    for now in failures:
        decisions.append(strategy.can_restart(now))
        if decisions[-1]:
            strategy.restart(now)
    return decisions


def delays(strategy: RestartStrategy, *failures: int) -> list[int]:
    """Return, for failures at these times, the delay of each restart."""
    delays_ms = []
    for now in failures:
        strategy.restart(now)
        delays_ms.append(strategy.backoff.delay_ms)
    return delays_ms


@pytest.mark.parametrize(
    ("configuration", "allowance"),
    [
        (NoRestartStrategyConfiguration(), "no restart"),
        (FixedDelayRestartStrategyConfiguration(attempts=0), "no restart"),
        (FixedDelayRestartStrategyConfiguration(attempts=1), "1 restart"),
        (FixedDelayRestartStrategyConfiguration(attempts=3), "3 restarts"),
        (FixedDelayRestartStrategyConfiguration(), "unlimited restarts"),
        (RATE, "2 restarts within 0.1 s"),
        (GROWING, "unlimited restarts"),
    ],
)
def test_a_strategy_describes_its_limit(configuration: RestartStrategyConfiguration, allowance: str) -> None:
    assert restart_strategy(configuration).allowance == allowance


def test_restarts_are_unlimited_without_a_configured_number_of_attempts() -> None:
    strategy = restart_strategy(FixedDelayRestartStrategyConfiguration(attempts=None))

    assert all(allowed(strategy, *range(1_000)))


def test_the_no_restart_strategy_allows_no_restart() -> None:
    assert allowed(restart_strategy(NoRestartStrategyConfiguration()), 0) == [False]


def test_a_failure_rate_allows_a_limited_number_of_restarts_per_interval() -> None:
    strategy = restart_strategy(RATE)

    # At 100 the failure at time 0 is exactly as old as the interval, and still counts.
    assert allowed(strategy, 0, 50, 100, 101, 150, 151) == [True, True, False, True, False, True]
    assert strategy.backoff == RestartBackoff(delay_ms=7)


def test_an_exponential_delay_is_limited_and_resets_after_a_quiet_time() -> None:
    strategy = restart_strategy(GROWING)

    assert delays(strategy, 10_000, 10_100, 10_200, 10_300) == [100, 200, 350, 350]
    # A quiet period is longer than the sum of the threshold and the current delay.
    assert delays(strategy, 11_649, 12_999) == [350, 100]


@pytest.mark.parametrize(
    ("configuration", "is_endless"),
    [
        (NoRestartStrategyConfiguration(), False),
        (FixedDelayRestartStrategyConfiguration(attempts=7), False),
        (FixedDelayRestartStrategyConfiguration(), True),
        (RATE, False),
        (GROWING, True),
        (replace(GROWING, max_same_failures=10), False),
    ],
)
def test_a_strategy_declares_whether_restarts_are_limited(
    configuration: RestartStrategyConfiguration, is_endless: bool
) -> None:
    assert restarts_without_end(configuration) is is_endless


def test_invalid_settings_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="number of restarts must be 0 or more, not -1"):
        FixedDelayRestartStrategy(-1, 0)
    with pytest.raises(ValueError, match="delay of a restart must be 0 or more"):
        FixedDelayRestartStrategy(1, -5)
    with pytest.raises(ValueError, match="number of failures must be 1 or more"):
        FailureRateRestartStrategy(0, 1, 0)
    with pytest.raises(ValueError, match="interval in which failures are counted must be 1 or more"):
        FailureRateRestartStrategy(1, 0, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"initial_backoff_ms": 0}, "first delay"),
        ({"initial_backoff_ms": 400}, "above the longest"),
        ({"backoff_multiplier": 1.0}, "multiplier"),
        ({"backoff_multiplier": float("nan")}, "multiplier"),
        ({"reset_backoff_threshold_ms": 0}, "the delay is reset"),
        ({"jitter_factor": 1.5}, "jitter"),
    ],
)
def test_an_inconsistent_exponential_delay_is_refused_by_name(wrong: dict[str, float], said: str) -> None:
    settings = {
        "initial_backoff_ms": 1,
        "max_backoff_ms": 350,
        "backoff_multiplier": 2.0,
        "reset_backoff_threshold_ms": 1,
        "jitter_factor": 0.0,
    }

    with pytest.raises(ValueError, match=said):
        ExponentialDelayRestartStrategy(**(settings | wrong))  # type: ignore[arg-type]  # some are whole numbers
