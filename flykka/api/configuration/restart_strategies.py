"""Restart strategies, with Flink's names."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.restart.restart_strategy import restart_strategy
from flykka.api.streams.program import at_least_one, not_negative
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)
from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms

DEFAULT_MAX_SAME_FAILURES = 10
"""Maximum number of identical failures. With the default delays and no completed checkpoint it is reached after about
75 s.
"""


@dataclass(frozen=True, slots=True)
class FallbackRestartStrategyConfiguration:
    """The strategy of a job that sets none: the cluster's strategy, else the default with or without checkpoints."""


class RestartStrategies:
    """Creates restart strategies for `set_restart_strategy` (Flink's RestartStrategies)."""

    @staticmethod
    def fixed_delay_restart(
        attempts: int | None = None, delay: Duration = "0s"
    ) -> FixedDelayRestartStrategyConfiguration:
        """Restart at most `attempts` times (None: without limit), each time `delay` after the failure.

        Raises:
            ProgramError: `attempts` is negative.
            DurationError: the delay cannot be parsed.
        """
        if attempts is not None:
            not_negative(attempts, "number of restarts")
        return FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=duration_ms(delay, "restart delay"))

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Duration, delay: Duration = "1s"
    ) -> FailureRateRestartStrategyConfiguration:
        """Restart at most `failure_rate` times within any `failure_interval`, each time `delay` after the failure.

        Raises:
            ProgramError: `failure_rate` is below 1.
            DurationError: a duration cannot be parsed, or the interval is 0.
        """
        return FailureRateRestartStrategyConfiguration(
            max_failures=at_least_one(failure_rate, "number of failures"),
            interval_ms=positive_duration_ms(failure_interval, "interval in which failures are counted"),
            delay_ms=duration_ms(delay, "restart delay"),
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Duration = "1s",
        max_backoff: Duration = "1min",
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: Duration = "1h",
        jitter_factor: float = 0.1,
        max_same_failures: int | None = DEFAULT_MAX_SAME_FAILURES,
    ) -> ExponentialDelayRestartStrategyConfiguration:
        """Restart after a delay that grows by `backoff_multiplier` with each failure, from `initial_backoff` to
        `max_backoff`.

        The delay is reset to `initial_backoff` after `reset_backoff_threshold`, plus the delay itself, without a
        failure. The delay varies at random by a fraction of up to `jitter_factor`, so that jobs that fail together do
        not restart together. The defaults are the same as in Flink 2.

        The number of restarts is unlimited, except for permanent errors: a job fails for good after `max_same_failures`
        identical failures without a completed checkpoint in between (None: no such limit). Failures are identical if
        vertex, type and message are the same, apart from ids and attempt numbers. Failures of the environment do not
        count: a lost TaskManager or executor, or an unreachable storage or connection.

        Raises:
            ProgramError: `max_backoff` is below `initial_backoff`, the multiplier is not above 1, the jitter is not
                between 0 and 1, or `max_same_failures` is below 1.
            DurationError: a duration cannot be parsed, or is 0.
        """
        chosen = ExponentialDelayRestartStrategyConfiguration(
            initial_backoff_ms=positive_duration_ms(initial_backoff, "first delay of a restart"),
            max_backoff_ms=positive_duration_ms(max_backoff, "longest delay of a restart"),
            backoff_multiplier=float(backoff_multiplier),
            reset_backoff_threshold_ms=positive_duration_ms(
                reset_backoff_threshold, "time after which the delay is reset"
            ),
            jitter_factor=float(jitter_factor),
            max_same_failures=max_same_failures,
        )
        try:
            restart_strategy(chosen)
        except ValueError as refused:
            raise ProgramError(f"exponential_delay_restart: {refused}") from refused
        return chosen

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """Never restart: the first failure fails the job."""
        return NoRestartStrategyConfiguration()

    @staticmethod
    def fallback_restart() -> FallbackRestartStrategyConfiguration:
        """Use the cluster's strategy, as if `set_restart_strategy` had not been called."""
        return FallbackRestartStrategyConfiguration()


def check_restart_strategy(strategy: object, *, is_default: bool = False) -> None:
    """Check that a value is a restart strategy and not, for example, the name of a strategy.

    Raises:
        ProgramError: the value is not a strategy; or it is the fallback to the cluster and `is_default` is True.
    """
    if isinstance(strategy, RestartStrategyConfiguration):
        return
    if is_default or not isinstance(strategy, FallbackRestartStrategyConfiguration):
        raise ProgramError(
            "a restart strategy is one such as RestartStrategies.fixed_delay_restart(3, '10s') or"
            f" RestartStrategies.no_restart(), not {strategy!r}"
        )


def resolve_restart_strategy(
    job: RestartStrategyConfiguration | FallbackRestartStrategyConfiguration,
    cluster: RestartStrategyConfiguration | None,
    *,
    is_checkpointing_enabled: bool,
) -> RestartStrategyConfiguration:
    """Return the strategy in effect: the job's own, else the cluster's, else Flink's default.

    Flink's default is an exponential delay with checkpoints, and no restart without them
    (RestartBackoffTimeStrategyFactoryLoader).
    """
    if not isinstance(job, FallbackRestartStrategyConfiguration):
        return job
    if cluster is not None:
        return cluster
    if is_checkpointing_enabled:
        return RestartStrategies.exponential_delay_restart()
    return NoRestartStrategyConfiguration()
