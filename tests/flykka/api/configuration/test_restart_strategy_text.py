"""Restart strategies written as text."""

from __future__ import annotations

import pytest

from flykka.api.configuration.options import restart_strategy
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("none", NoRestartStrategyConfiguration()),
        ("fixed-delay", FixedDelayRestartStrategyConfiguration()),
        ("fixed-delay,attempts=3,delay=10s", FixedDelayRestartStrategyConfiguration(attempts=3, delay_ms=10_000)),
        (
            "failure-rate,failure_rate=2,failure_interval=5min",
            FailureRateRestartStrategyConfiguration(max_failures=2, interval_ms=300_000, delay_ms=1_000),
        ),
        (
            "exponential-delay,max_backoff=2min,jitter_factor=0,max_same_failures=3",
            ExponentialDelayRestartStrategyConfiguration(
                initial_backoff_ms=1_000,
                max_backoff_ms=120_000,
                backoff_multiplier=1.5,
                reset_backoff_threshold_ms=3_600_000,
                jitter_factor=0.0,
                max_same_failures=3,
            ),
        ),
    ],
)
def test_a_restart_strategy_is_parsed_with_its_settings(text: str, meant: RestartStrategyConfiguration) -> None:
    assert restart_strategy(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("often", "no restart strategy 'often'; there are none, fixed-delay, failure-rate, exponential-delay"),
        ("none,delay=1s", "'delay=1s' is not a setting of none; its settings: none"),
        ("fixed-delay,attempts", "'attempts' is not a setting of fixed-delay; its settings: attempts=..., delay=..."),
        ("fixed-delay,attempts=many", "attempts of fixed-delay must be a number, not 'many'"),
        ("fixed-delay,delay=soon", "soon"),
        ("failure-rate,failure_rate=1", "needs failure_rate=... and failure_interval=..."),
        ("exponential-delay,initial_backoff=2s,max_backoff=1s", "above the longest"),
    ],
)
def test_an_invalid_restart_strategy_is_refused_with_a_valid_example(text: str, said: str) -> None:
    with pytest.raises((ValueError, ProgramError)) as refused:
        restart_strategy(text)

    assert said in str(refused.value)
