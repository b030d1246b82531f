"""Errors of the kernel, named for whose fault they are.

KernelError
├── InvalidActorNameError       the spawner: the name is malformed, reserved or taken
├── SpawnRefusedError           the spawner: it is ending, so no child of it could live
├── ProxyNotSupportedError      the caller: asked a kernel actor for a Pykka proxy
├── ActorInitializationError    the actor: its factory or `pre_start` failed
├── DeathPactError              the actor: it watched another one, and did not handle that one's end
├── ActorDeadError              the asked actor ended before it replied (a `pykka.ActorDeadError`)
├── AskTimeoutError             no reply within the deadline (a `pykka.Timeout`)
├── AskFailedError              the asked actor failed while it handled the message
├── ReplyReturnedError          the asked actor returned its reply, which must be told (a `TypeError`)
├── AskCycleError               actors that wait for each other; the text names the chain
├── MailboxOverflowError        the question found the mailbox of the asked actor full
├── StashError                  the actor: it stashed a signal or nothing, or a message twice
│   └── StashOverflowError      the actor: it stashed more than its Props allow
├── WaitInTurnError             the caller: a turn that waits for its own actor's end, which would never come
├── BlockingInLoopError         the actor: it would block the event loop that it shares with others
├── ForeignAwaitError           the actor: in virtual time it awaited something of the world outside
├── NondeterminismError         the actor: it did something in its turn that no replay could repeat
├── CircuitBreakerOpenError     the called service has failed too often; it was not called
├── CircuitBreakerTimeoutError  the called side took longer than a circuit breaker allows
├── FutureCancelledError        the asker gave up
├── DurationError               the caller: a length of time that cannot be read (a `ValueError`)
├── TraceError                  the file: no trace, damaged content, or written by a newer flykka (a `ValueError`)
│   ├── ForeignModuleError      the caller: has not passed a module that the trace names
│   │   └── UnknownTagError     the caller, or the file: the trace has a tag that is declared nowhere here
│   └── UnresolvedPropsError    the trace: an actor of it cannot be made here
├── ReplaySessionError          the caller: looks in a replayed trace for a missing turn or actor (a `ValueError`)
│   └── ForkError               the caller: wants a fault at a turn where it cannot happen
├── ShutdownBegunError          the caller: a shutdown task was added too late
└── TerminationTimeoutError     the system did not end within the deadline; names the stragglers
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pykka

from flykka.messages.wire.failure import SerializedThrowable, suppresses_restarts
from flykka.runtime.secrets import masked

if TYPE_CHECKING:
    from collections.abc import Sequence


class KernelError(Exception):
    """Base of the failures that the kernel itself reports."""


class DurationError(KernelError, ValueError):
    """The length of time cannot be read, or makes no sense where it stands."""


class TraceError(KernelError, ValueError):
    """The file is no trace, one of a later format, or has content that no recorder writes; the text says where."""


class ForeignModuleError(TraceError):
    """A trace names a class of a module that is not flykka's and was not passed by the caller: it is not imported."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(
            f"the trace names {name}, and no module is imported because a trace names it; if you trust {module}, "
            f"add --import {module}, or Replayer(modules=[{module!r}]) in Python"
        )
        self.module = module


class UnknownTagError(ForeignModuleError):
    """A trace names something by a tag that is declared nowhere here."""

    def __init__(self, tag: str) -> None:
        TraceError.__init__(
            self,
            f"the trace names something by the tag {tag!r}, which is declared nowhere here: if a module of yours "
            "declares it, add --import MODULE, or Replayer(modules=[...]) in Python; if not, a newer flykka has "
            "recorded the trace, and can replay it",
        )


class UnresolvedPropsError(TraceError):
    """An actor of a trace cannot be made here; the text says why."""


class ReplaySessionError(KernelError, ValueError):
    """In a replayed trace there is no such turn, actor, or kind of turn."""


class ForkError(ReplaySessionError):
    """A fork of a replayed trace cannot have this fault where it is to have it."""


class InvalidActorNameError(KernelError):
    """An actor cannot have this name here."""


class SpawnRefusedError(KernelError):
    """The parent is stopping or has ended."""


class ProxyNotSupportedError(KernelError):
    """A Pykka proxy would put arbitrary objects into messages and read the live actor from another thread."""


class ActorInitializationError(KernelError):
    """The factory or `pre_start` of an actor failed; the cause is chained."""


class DeathPactError(KernelError):
    """A watched actor has ended, and the watcher has no answer to that: it ends too (Akka's DeathPactException)."""


class ActorDeadError(KernelError, pykka.ActorDeadError):
    """The asked actor ended, or had ended, without a reply."""


class AskTimeoutError(KernelError, pykka.Timeout):
    """No reply within the time that the asker allowed."""


class AskFailedError(KernelError):
    """The asked actor raised. `failure` is the exception as text: the living one would keep its frames alive."""

    def __init__(self, failure: SerializedThrowable) -> None:
        super().__init__(f"{failure.type_name}: {failure.message}")
        self.failure = failure


class ReplyReturnedError(KernelError, TypeError):
    """The asked actor returned its reply, as Pykka actors do, and told its asker nothing."""


class AskCycleError(KernelError):
    """A blocking ask that could never be answered, because its chain of waiting actors leads back to the asker."""

    def __init__(self, chain: Sequence[object]) -> None:
        super().__init__(" -> ".join(str(link) for link in chain))


class MailboxOverflowError(KernelError):
    """The question was lost, or pushed out by a newer message, because the mailbox of the asked actor is full."""


class StashError(KernelError):
    """No message is being handled that could be stashed, or it is stashed already."""


class StashOverflowError(StashError):
    """The stash holds as many messages as it may."""


class WaitInTurnError(KernelError):
    """An actor must not wait, in a turn, for an end that comes after this turn: of itself, a parent, or its system."""


class BlockingInLoopError(KernelError):
    """An actor on an event loop awaits a future; to block there would block every other actor of that loop too."""


class ForeignAwaitError(KernelError, NotImplementedError):
    """An actor on a seeded dispatcher reached for a socket, a process or the like, which no seed could repeat."""


class NondeterminismError(KernelError):
    """A turn has read the real clock, slept, or reached for the world outside; the text names the line and a remedy."""


class CircuitBreakerOpenError(KernelError):
    """The circuit breaker lets no call through; it will try one in `remaining_ms`, 0 where it is trying one now."""

    def __init__(self, name: str, remaining_ms: int) -> None:
        until = f"the next try is in {remaining_ms} ms" if remaining_ms else "another call is being tried"
        super().__init__(f"circuit breaker {name!r} is open: {until}")
        self.remaining_ms = remaining_ms


class CircuitBreakerTimeoutError(KernelError):
    """The call took longer than the circuit breaker allows. It may still run, and come to an end."""

    def __init__(self, name: str, timeout_ms: int) -> None:
        super().__init__(f"circuit breaker {name!r}: the call took longer than {timeout_ms} ms")


class FutureCancelledError(KernelError):
    """The future was cancelled before a result came."""


class ShutdownBegunError(KernelError):
    """The coordinated shutdown is past the point where this could have had a place in it."""


class TerminationTimeoutError(KernelError):
    """The system was told to terminate and had not ended at the deadline."""

    def __init__(self, system: str, stragglers: Sequence[str]) -> None:
        super().__init__(f"actor system {system} still runs: {', '.join(stragglers)}")
        self.stragglers = tuple(stragglers)


def serialized(error: BaseException) -> SerializedThrowable:
    """Turn a living exception into text that may travel and be kept, without the secrets of this process."""
    return SerializedThrowable(
        type_name=type(error).__name__,
        message=masked(_text(error)),
        stack_trace=masked("".join(traceback.format_exception(error))),
        suppress_restarts=suppresses_restarts(error),
    )


def _text(error: BaseException) -> str:
    # An exception whose own __str__ fails is still a failure to report.
    try:
        return str(error)
    except Exception as unprintable:  # noqa: BLE001
        return f"<unprintable: {type(unprintable).__name__}>"
