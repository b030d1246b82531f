"""What a job does after a failure, by Flink's names."""

from __future__ import annotations

from flykka.messages.job_graph import RestartStrategyConfiguration
from flykka.runtime.durations import Duration, duration_ms
from flykka.streams.program import not_negative


class RestartStrategies:
    """Flink's RestartStrategies: makers of what `set_restart_strategy` takes."""

    @staticmethod
    def fixed_delay_restart(attempts: int | None = None, delay: Duration = "0s") -> RestartStrategyConfiguration:
        """At most `attempts` restarts (None: without end), each `delay` after its failure.

        Raises:
            ProgramError: `attempts` is negative.
            DurationError: the delay cannot be read.
        """
        if attempts is not None:
            not_negative(attempts, "number of restarts")
        return RestartStrategyConfiguration(attempts=attempts, delay_ms=duration_ms(delay, "restart delay"))

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """The first failure fails the job."""
        return RestartStrategyConfiguration(attempts=0)
