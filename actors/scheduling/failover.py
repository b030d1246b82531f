"""Whether a failed job starts again, when, and with which of its tasks.

`decide` is asked when every task of a failed job has come to an end. The whole job is what restarts: all of its tasks
are cancelled before and all are made anew. (Flink's RestartAllStrategy.)
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.scheduling.restart_strategy import RestartStrategy
from flykka.messages.failure import SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The tasks start again after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The job has failed for good, of `cause`."""

    cause: SerializedThrowable


def decide(strategy: RestartStrategy, cause: SerializedThrowable) -> Restart | GiveUp:
    """Whether the job starts again. A failure that no restart can mend does not use up a restart."""
    if cause.suppress_restarts or not strategy.can_restart():
        return GiveUp(cause=cause)
    return Restart(delay_ms=strategy.restart())
