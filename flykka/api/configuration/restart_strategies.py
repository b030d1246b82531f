"""Restart strategies, by Flink's names."""

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
"""Some 75 seconds with the default delays: what has not gone away by then, and has let no checkpoint pass, stays."""


@dataclass(frozen=True, slots=True)
class FallbackRestartStrategyConfiguration:
    """The job says nothing: the cluster does, and where that says nothing either, whether there are checkpoints."""


class RestartStrategies:
    """Flink's RestartStrategies: makers of what `set_restart_strategy` takes."""

    @staticmethod
    def fixed_delay_restart(
        attempts: int | None = None, delay: Duration = "0s"
    ) -> FixedDelayRestartStrategyConfiguration:
        """At most `attempts` restarts (None: without end), each `delay` after its failure.

        Raises:
            ProgramError: `attempts` is negative.
            DurationError: the delay cannot be read.
        """
        if attempts is not None:
            not_negative(attempts, "number of restarts")
        return FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=duration_ms(delay, "restart delay"))

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Duration, delay: Duration = "1s"
    ) -> FailureRateRestartStrategyConfiguration:
        """At most `failure_rate` restarts within any `failure_interval`, each `delay` after its failure.

        Raises:
            ProgramError: `failure_rate` is below 1.
            DurationError: a length of time cannot be read, or the interval is none.
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
        """Restarts after a delay that is multiplied with each failure, from `initial_backoff` to `max_backoff`.

        When nothing has failed for `reset_backoff_threshold` beyond the delay, it is `initial_backoff` again. The delay
        is spread at random by up to `jitter_factor` of itself, so that jobs that fail together do not come back
        together. The defaults are those of Flink 2.

        There is no end to the restarts, except for an error that does not go away: a job that has failed
        `max_same_failures` times with the same failure, and has completed no checkpoint in between, has FAILED (None:
        it is restarted all the same). The same failure is one of the same vertex, type and message, apart from ids and
        numbers of attempts. What lies in the environment does not count: a lost TaskManager or executor, a storage or
        a connection that is not there.

        Raises:
            ProgramError: `max_backoff` is below `initial_backoff`, the multiplier is not above 1, the jitter is not
                between 0 and 1, or `max_same_failures` is below 1.
            DurationError: a length of time cannot be read, or is none.
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
        """The first failure fails the job."""
        return NoRestartStrategyConfiguration()

    @staticmethod
    def fallback_restart() -> FallbackRestartStrategyConfiguration:
        """The cluster's strategy, as if `set_restart_strategy` had not been called."""
        return FallbackRestartStrategyConfiguration()


def check_restart_strategy(strategy: object, *, is_default: bool = False) -> None:
    """Refuse a value that is no restart strategy, such as the name of one.

    Raises:
        ProgramError: it is none; or it `is_default`, that of a cluster, and says that the cluster decides.
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
    """The strategy that holds: the job's own, else the cluster's, else Flink's rule.

    That is: with checkpoints a job is restarted after an exponential delay, without them not at all
    (RestartBackoffTimeStrategyFactoryLoader).
    """
    if not isinstance(job, FallbackRestartStrategyConfiguration):
        return job
    if cluster is not None:
        return cluster
    if is_checkpointing_enabled:
        return RestartStrategies.exponential_delay_restart()
    return NoRestartStrategyConfiguration()
