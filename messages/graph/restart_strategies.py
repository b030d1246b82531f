"""Restart strategies as a job says them."""

from __future__ import annotations

from flykka.messages.wire.message import Value, value


@value("job_graph.no_restart")
class NoRestartStrategyConfiguration(Value):
    """The first failure fails the job."""


@value("job_graph.restart_strategy")
class FixedDelayRestartStrategyConfiguration(Value):
    """`attempts` restarts at most (None: without end), `delay_ms` after each failure."""

    attempts: int | None = None
    delay_ms: int = 0


@value("job_graph.failure_rate_restart")
class FailureRateRestartStrategyConfiguration(Value):
    """`max_failures` restarts at most within `interval_ms`, `delay_ms` after each failure."""

    max_failures: int
    interval_ms: int
    delay_ms: int


@value("job_graph.exponential_delay_restart")
class ExponentialDelayRestartStrategyConfiguration(Value):
    """Restarts without end: the delay grows with each failure, from `initial_backoff_ms` to `max_backoff_ms`.

    It is multiplied by `backoff_multiplier`, spread by `jitter_factor` of itself (0 to 1) to both sides, and begins
    again when nothing has failed for `reset_backoff_threshold_ms` beyond the delay. A job that fails
    `max_same_failures` times with the same failure, and completes no checkpoint in between, is not restarted any more
    (None: it is).
    """

    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    reset_backoff_threshold_ms: int
    jitter_factor: float
    max_same_failures: int | None = None


RestartStrategyConfiguration = (
    NoRestartStrategyConfiguration
    | FixedDelayRestartStrategyConfiguration
    | FailureRateRestartStrategyConfiguration
    | ExponentialDelayRestartStrategyConfiguration
)
"""The reaction to a failure (Flink's RestartStrategies.RestartStrategyConfiguration)."""
