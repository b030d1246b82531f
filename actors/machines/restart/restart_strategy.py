"""Decides whether a failed job restarts, and after which delay (Flink's RestartBackoffTimeStrategy).

A strategy only counts restarts. `failure_handler` decides which failures suppress restarts under any strategy. Times
are milliseconds of the caller's clock. A strategy draws no random numbers: a `RestartBackoff` has the bounds of the
delay.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol, assert_never

from flykka.messages.graph import job_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBackoff:
    """A delay of `delay_ms`, plus or minus up to `jitter_ms`, and at most `max_ms` (`None`: no limit)."""

    delay_ms: int
    jitter_ms: int = 0
    max_ms: int | None = None

    def drawn(self, chance: float) -> int:
        """Return the delay (ms) for the random number `chance` from 0 to below 1, spread evenly over the jitter."""
        delay_ms = self.delay_ms - self.jitter_ms + int(chance * (2 * self.jitter_ms + 1))
        return delay_ms if self.max_ms is None else min(delay_ms, self.max_ms)


class RestartStrategy(Protocol):
    """Counts restarts. Called once for every failure that a restart may fix."""

    @property
    def backoff(self) -> RestartBackoff:
        """The delay before the restart that was counted last."""

    @property
    def max_same_failures(self) -> int | None:
        """The number of equal failures between two checkpoints after which the job fails."""

    @property
    def allowance(self) -> str:
        """The restarts that the strategy allows, as text that fits after "it allows"."""

    def can_restart(self, now: int) -> bool: ...

    def restart(self, now: int) -> None:
        """Record a restart. Call this only if `can_restart` has returned True."""


class NoRestartStrategy:
    backoff = RestartBackoff(delay_ms=0)
    max_same_failures: int | None = None
    allowance = "no restart"

    def can_restart(self, now: int) -> bool:
        return False

    def restart(self, now: int) -> None:
        raise AssertionError("no restart is allowed")


class FixedDelayRestartStrategy:
    """Allows a fixed number of restarts, or any number, with the same delay before each.

    Raises:
        ValueError: the number of attempts or the delay is negative.
    """

    max_same_failures: int | None = None

    def __init__(self, attempts: int | None, delay_ms: int) -> None:
        if attempts is not None and attempts < 0:
            raise ValueError(f"the number of restarts must be 0 or more, not {attempts}")
        self._attempts = attempts
        self.backoff = RestartBackoff(delay_ms=_at_least(delay_ms, 0, "delay of a restart"))
        self.attempts_used = 0

    @property
    def allowance(self) -> str:
        return "unlimited restarts" if self._attempts is None else _restarts(self._attempts)

    def can_restart(self, now: int) -> bool:
        return self._attempts is None or self.attempts_used < self._attempts

    def restart(self, now: int) -> None:
        assert self.can_restart(now)
        self.attempts_used += 1


class FailureRateRestartStrategy:
    """Allows a fixed number of restarts within an interval. A restart that is exactly as old as the interval still
    counts.

    Raises:
        ValueError: the number of failures or the interval is below 1, or the delay is negative.
    """

    max_same_failures: int | None = None

    def __init__(self, max_failures: int, interval_ms: int, delay_ms: int) -> None:
        self._restarts: deque[int] = deque(maxlen=_at_least(max_failures, 1, "number of failures"))
        self._interval_ms = _at_least(interval_ms, 1, "interval in which failures are counted")
        self.backoff = RestartBackoff(delay_ms=_at_least(delay_ms, 0, "delay of a restart"))

    @property
    def allowance(self) -> str:
        return f"{_restarts(self._restarts.maxlen or 0)} within {self._interval_ms / 1_000:g} s"

    def can_restart(self, now: int) -> bool:
        return len(self._restarts) < (self._restarts.maxlen or 0) or now - self._restarts[0] > self._interval_ms

    def restart(self, now: int) -> None:
        """Count a restart, which replaces the oldest one if the maximum is reached."""
        assert self.can_restart(now)
        self._restarts.append(now)


class ExponentialDelayRestartStrategy:
    """Restarts with a growing delay, which is reset after a long time without failures.

    The number of restarts is not limited, except for a failure that occurs `max_same_failures` times without a
    checkpoint in between.

    Raises:
        ValueError: a duration is below 1 ms, the first delay is above the longest, the multiplier is not
            above 1, the jitter is not between 0 and 1, or the limit of equal failures is below 1.
    """

    def __init__(
        self,
        *,
        initial_backoff_ms: int,
        max_backoff_ms: int,
        backoff_multiplier: float,
        reset_backoff_threshold_ms: int,
        jitter_factor: float,
        max_same_failures: int | None = None,
    ) -> None:
        self._initial_ms = _at_least(initial_backoff_ms, 1, "first delay of a restart")
        self._max_ms = _at_least(max_backoff_ms, 1, "longest delay of a restart")
        self._reset_ms = _at_least(reset_backoff_threshold_ms, 1, "time after which the delay is reset")
        if initial_backoff_ms > max_backoff_ms:
            raise ValueError(f"the first delay, {initial_backoff_ms} ms, is above the longest, {max_backoff_ms} ms")
        if not backoff_multiplier > 1:
            raise ValueError(f"the multiplier of the delay must be above 1, not {backoff_multiplier}")
        if not 0 <= jitter_factor <= 1:
            raise ValueError(f"the jitter must be a share of the delay from 0 to 1, not {jitter_factor}")
        if max_same_failures is not None:
            _at_least(max_same_failures, 1, "number of times that the same failure may occur")
        self.max_same_failures = max_same_failures
        self._multiplier = backoff_multiplier
        self._jitter = jitter_factor
        self._current_ms = initial_backoff_ms
        self._last_failure_ms = 0

    @property
    def backoff(self) -> RestartBackoff:
        """The current delay. Its jitter is a fraction of the delay, in whole milliseconds."""
        jitter_ms = int(self._current_ms * self._jitter)
        return RestartBackoff(delay_ms=self._current_ms, jitter_ms=jitter_ms, max_ms=self._max_ms)

    @property
    def allowance(self) -> str:
        return "unlimited restarts"

    def can_restart(self, now: int) -> bool:
        return True

    def restart(self, now: int) -> None:
        if now - self._last_failure_ms >= self._reset_ms + self._current_ms:
            self._current_ms = self._initial_ms
        else:
            self._current_ms = min(int(self._current_ms * self._multiplier), self._max_ms)
        self._last_failure_ms = now


def restart_strategy(configuration: job_graph.RestartStrategyConfiguration) -> RestartStrategy:
    """Return the restart strategy of a job. Raises `ValueError` if the configuration is invalid."""
    match configuration:
        case job_graph.NoRestartStrategyConfiguration():
            return NoRestartStrategy()
        case job_graph.FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=delay_ms):
            return FixedDelayRestartStrategy(attempts, delay_ms)
        case job_graph.FailureRateRestartStrategyConfiguration(
            max_failures=max_failures, interval_ms=interval_ms, delay_ms=delay_ms
        ):
            return FailureRateRestartStrategy(max_failures, interval_ms, delay_ms)
        case job_graph.ExponentialDelayRestartStrategyConfiguration():
            return ExponentialDelayRestartStrategy(
                initial_backoff_ms=configuration.initial_backoff_ms,
                max_backoff_ms=configuration.max_backoff_ms,
                backoff_multiplier=configuration.backoff_multiplier,
                reset_backoff_threshold_ms=configuration.reset_backoff_threshold_ms,
                jitter_factor=configuration.jitter_factor,
                max_same_failures=configuration.max_same_failures,
            )
        case unreachable:
            assert_never(unreachable)


def _restarts(number: int) -> str:
    return {0: "no restart", 1: "1 restart"}.get(number, f"{number} restarts")


def restarts_without_end(configuration: job_graph.RestartStrategyConfiguration) -> bool:
    """Return True if a job that always fails with the same failure is restarted forever."""
    match configuration:
        case job_graph.FixedDelayRestartStrategyConfiguration(attempts=None):
            return True
        case job_graph.ExponentialDelayRestartStrategyConfiguration(max_same_failures=None):
            return True
        case _:
            return False


def _at_least(number: int, least: int, what: str) -> int:
    if number < least:
        raise ValueError(f"the {what} must be {least} or more, not {number}")
    return number
