"""Supervisor strategies: a parent's decisions about a failed child (Akka's SupervisorStrategy)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from flykka.messages.wire.tags import trace_tag
from flykka.runtime.errors import ActorInitializationError, DeathPactError

if TYPE_CHECKING:
    import random

    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.time.backoff import Backoff


@trace_tag("supervision.directive")
class Directive(Enum):
    """RESUME keeps the instance, RESTART replaces it, STOP ends the actor, ESCALATE fails the parent instead."""

    RESUME = "resume"
    RESTART = "restart"
    STOP = "stop"
    ESCALATE = "escalate"


Decider = Callable[[BaseException], Directive]


@trace_tag("supervision.default_decider")
def default_decider(error: BaseException) -> Directive:
    """Decide like Akka: failed initialisation and death pacts stop, exceptions restart, everything else escalates.

    A `CancelledError` is not an `Exception` in Python, but only means that some work was cancelled, so it restarts.
    """
    match error:
        case ActorInitializationError() | DeathPactError():
            return Directive.STOP
        case Exception() | asyncio.CancelledError():
            return Directive.RESTART
        case _:
            return Directive.ESCALATE


@trace_tag("supervision.stopping_decider")
def stopping_decider(_error: BaseException) -> Directive:
    return Directive.STOP


@trace_tag("supervision.escalating_decider")
def escalating_decider(_error: BaseException) -> Directive:
    return Directive.ESCALATE


@trace_tag("supervision.guardian_decider")
def guardian_decider(error: BaseException) -> Directive:
    """Decide for the top level, which cannot escalate: KeyboardInterrupt and the like restart."""
    directive = default_decider(error)
    return Directive.RESTART if directive is Directive.ESCALATE else directive


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStrategy(ABC):
    """A decider with a limit: a child that is restarted more than `max_restarts` times within `within_ms` is stopped.

    Without `within_ms` the limit applies to the child's whole life; without `max_restarts` there is none. With a
    `backoff` the new instance is created after a delay (like Akka's typed `restartWithBackoff`): the old instance is
    dropped at once, ref and mailbox stay, and messages wait.
    """

    decider: Decider = default_decider
    max_restarts: int | None = None
    within_ms: int | None = None
    backoff: Backoff | None = None

    @abstractmethod
    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        """Return the children to which the directive applies."""

    def may_restart(self, history: RestartHistory, now: int) -> bool:
        """Count a restart at `now` (ms). Returns False if the limit is reached."""
        if self.max_restarts is None:
            return True
        if self.within_ms is not None and now - history.window_start > self.within_ms:
            history.count = 0
        if history.count == 0:
            history.window_start = now
        history.count += 1
        return history.count <= self.max_restarts

    def delay_ms(self, history: RestartHistory, now: int, chance: Callable[[], random.Random]) -> int:
        """Return the delay in ms of the restart decided at `now`. `chance` returns random numbers if one is needed."""
        backoff = self.backoff
        if backoff is None:
            return 0
        if now - history.restarts_at >= backoff.reset_after_ms:
            history.backoffs = 0
        delay_ms = backoff.delay_ms(history.backoffs, chance())
        history.backoffs += 1
        history.restarts_at = now + delay_ms
        return delay_ms


@trace_tag("supervision.one_for_one")
class OneForOne(SupervisorStrategy):
    """Applies a directive to the failed child only."""

    __slots__ = ()

    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        return (failed,)


@trace_tag("supervision.all_for_one")
class AllForOne(SupervisorStrategy):
    """Applies a directive to all children, for children that cannot work without each other."""

    __slots__ = ()

    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        return siblings


class RestartHistory:
    """The restarts of a child within the window that started at `window_start` (ms). Used in turns of its parent."""

    __slots__ = ("backoffs", "count", "restarts_at", "window_start")

    def __init__(self) -> None:
        self.count = 0
        self.window_start = 0
        self.backoffs = 0
        """The number of delays since the shortest one."""
        self.restarts_at = 0
        """The end of the last delay, in ms."""


DEFAULT_STRATEGY = OneForOne()
GUARDIAN_STRATEGY = OneForOne(decider=guardian_decider)
STOPPING_STRATEGY = OneForOne(decider=stopping_decider)
"""Supervises children whose failure their parent reports."""
ESCALATING_STRATEGY = OneForOne(decider=escalating_decider)
"""Supervises children whose state cannot be rebuilt: they fail with their parent."""
