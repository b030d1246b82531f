"""Whether a failed job is started again, and after how long (Flink's RestartStrategy).

A strategy only counts. What suppresses restarts whatever the strategy says is decided in `failover`.
"""

from __future__ import annotations

from typing import Protocol

from flykka.messages.job_graph import RestartStrategyConfiguration


class RestartStrategy(Protocol):
    """Asked once for every failure of the job, when all of its attempts have come to an end."""

    def can_restart(self) -> bool:
        """Whether one more restart is allowed."""

    def restart(self) -> int:
        """Count a restart, which is allowed, and say in how many ms it begins."""


class FixedDelayRestartStrategy:
    """So many restarts, or without end, and the same pause before each."""

    def __init__(self, attempts: int | None, delay_ms: int) -> None:
        self._attempts = attempts
        self._delay_ms = delay_ms
        self.attempts_used = 0

    def can_restart(self) -> bool:
        """Whether one more restart is allowed."""
        return self._attempts is None or self.attempts_used < self._attempts

    def restart(self) -> int:
        """Count a restart and say in how many ms it begins."""
        assert self.can_restart()
        self.attempts_used += 1
        return self._delay_ms


def restart_strategy(configuration: RestartStrategyConfiguration) -> RestartStrategy:
    """The strategy of a job; no attempts at all is Flink's NoRestartStrategy."""
    return FixedDelayRestartStrategy(configuration.attempts, configuration.delay_ms)
