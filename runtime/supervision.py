"""What a parent decides about a child that failed (Akka's SupervisorStrategy)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from flykka.runtime.errors import ActorInitializationError, DeathPactError

if TYPE_CHECKING:
    import random

    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.time.backoff import Backoff


class Directive(Enum):
    """Resume keeps the instance, Restart replaces it, Stop ends the actor, Escalate fails the parent in its place."""

    RESUME = "resume"
    RESTART = "restart"
    STOP = "stop"
    ESCALATE = "escalate"


Decider = Callable[[BaseException], Directive]


def default_decider(error: BaseException) -> Directive:
    """Akka's defaults: who could not be made or has a death pact is stopped, an exception restarts, the rest escalates.

    A `CancelledError`, which Python calls graver than an exception, says no more than that some work was given up.
    """
    match error:
        case ActorInitializationError() | DeathPactError():
            return Directive.STOP
        case Exception() | asyncio.CancelledError():
            return Directive.RESTART
        case _:
            return Directive.ESCALATE


def stopping_decider(_error: BaseException) -> Directive:
    """Stop the child, whatever it raised."""
    return Directive.STOP


def escalating_decider(_error: BaseException) -> Directive:
    """Fail the parent in the child's place, whatever the child raised."""
    return Directive.ESCALATE


def guardian_decider(error: BaseException) -> Directive:
    """The defaults for the top level, above which is no one to escalate to: KeyboardInterrupt and the like restart."""
    directive = default_decider(error)
    return Directive.RESTART if directive is Directive.ESCALATE else directive


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStrategy(ABC):
    """A decider with a limit: more than `max_restarts` within `within_ms` stop the child.

    Without `within_ms` the limit counts the child's whole life; without `max_restarts` there is none. With a `backoff`
    the new instance is made after a delay (as Akka's typed `restartWithBackoff` does): the old one is let go at once,
    ref and mailbox stay, and what is told meanwhile waits in the mailbox.
    """

    decider: Decider = default_decider
    max_restarts: int | None = None
    within_ms: int | None = None
    backoff: Backoff | None = None

    @abstractmethod
    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        """The children that the directive is carried out on."""

    def may_restart(self, history: RestartHistory, now: int) -> bool:
        """Count a restart at `now` in ms; False where the limit is reached."""
        if self.max_restarts is None:
            return True
        if self.within_ms is not None and now - history.window_start > self.within_ms:
            history.count = 0
        if history.count == 0:
            history.window_start = now
        history.count += 1
        return history.count <= self.max_restarts

    def delay_ms(self, history: RestartHistory, now: int, chance: Callable[[], random.Random]) -> int:
        """How long the restart decided on at `now` waits, in ms; `chance` is called where some is needed."""
        backoff = self.backoff
        if backoff is None:
            return 0
        if now - history.restarts_at >= backoff.reset_after_ms:
            history.backoffs = 0
        delay_ms = backoff.delay_ms(history.backoffs, chance())
        history.backoffs += 1
        history.restarts_at = now + delay_ms
        return delay_ms


class OneForOne(SupervisorStrategy):
    """A failure concerns the failed child alone."""

    __slots__ = ()

    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        """The failed child."""
        return (failed,)


class AllForOne(SupervisorStrategy):
    """A failure of one child concerns all of them: for children that cannot work without each other."""

    __slots__ = ()

    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        """Every child."""
        return siblings


class RestartHistory:
    """How often a child was restarted in the window that began at `window_start` (ms), and how patiently.

    The parent's notes, written in the parent's turns.
    """

    __slots__ = ("backoffs", "count", "restarts_at", "window_start")

    def __init__(self) -> None:
        self.count = 0
        self.window_start = 0
        self.backoffs = 0
        """Delays since they began at the shortest one."""
        self.restarts_at = 0
        """When the last delay is over."""


DEFAULT_STRATEGY = OneForOne()
GUARDIAN_STRATEGY = OneForOne(decider=guardian_decider)
STOPPING_STRATEGY = OneForOne(decider=stopping_decider)
"""For children whose failure their parent reports instead of mending."""
ESCALATING_STRATEGY = OneForOne(decider=escalating_decider)
"""For children that share the fate of their parent: what they remember cannot be made anew."""
