"""Errors of the kernel, each with the party at fault.

KernelError
├── InvalidActorNameError       the spawner: the name is malformed, reserved or taken
├── SpawnRefusedError           the spawner: it is ending, so no child of it could live
├── ProxyNotSupportedError      the caller: requested a Pykka proxy for a kernel actor
├── ActorInitializationError    the actor: its factory or `pre_start` failed
├── DeathPactError              the actor: it watched another actor, and did not handle that actor's end
├── ActorDeadError              the asked actor ended before it replied (a `pykka.ActorDeadError`)
├── AskTimeoutError             no reply within the deadline (a `pykka.Timeout`)
├── AskFailedError              the asked actor failed while it handled the message
├── ReplyReturnedError          the asked actor returned its reply, which must be sent (a `TypeError`)
├── AskCycleError               actors that wait for each other; the text names the chain
├── MailboxOverflowError        the mailbox of the asked actor was full
├── StashError                  the actor: it stashed a signal or nothing, or a message twice
│   └── StashOverflowError      the actor: it stashed more than its Props allow
├── WaitInTurnError             the caller: a turn that waits for its own actor's end, which would never come
├── BlockingInLoopError         the actor: it would block the event loop that it shares with others
├── ForeignAwaitError           the actor: in virtual time it awaited an external event
├── NondeterminismError         the actor: it did something in its turn that a replay cannot reproduce
├── CircuitBreakerOpenError     the called service has failed too often; it was not called
├── CircuitBreakerTimeoutError  the called service took longer than a circuit breaker allows
├── FutureCancelledError        the caller cancelled the future
├── DurationError               the caller: a duration that cannot be parsed (a `ValueError`)
├── TraceError                  the file: not a trace, damaged, or written by a newer flykka (a `ValueError`)
│   ├── ForeignModuleError      the caller: has not passed a module that the trace names
│   │   └── UnknownTagError     the caller, or the file: the trace has a tag that no loaded module declares
│   └── UnresolvedPropsError    the trace: one of its actors cannot be created here
├── ReplaySessionError          the caller: requests a missing turn or actor of a replayed trace (a `ValueError`)
│   └── ForkError               the caller: requests a fault at a turn where it cannot happen
├── ShutdownBegunError          the caller: a shutdown task was added too late
└── TerminationTimeoutError     the system did not end within the deadline; names the actors still alive
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
    """The base class of the errors that the kernel itself reports."""


class DurationError(KernelError, ValueError):
    """The duration cannot be parsed, or is not allowed here."""


class TraceError(KernelError, ValueError):
    """The file is not a trace, has a later format, or no recorder wrote it. The message names the location."""


class ForeignModuleError(TraceError):
    """A trace names a class of a module that is not flykka's and that the caller has not passed. It is not imported."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(
            f"the trace names {name}, but a module is not imported just because a trace names it; if you trust"
            f" {module}, add --import {module}, or Replayer(modules=[{module!r}]) in Python"
        )
        self.module = module


class UnknownTagError(ForeignModuleError):
    """A trace contains a tag that no loaded module declares."""

    def __init__(self, tag: str) -> None:
        TraceError.__init__(
            self,
            f"the trace contains the tag {tag!r}, which no imported module declares: if a module of yours declares it,"
            " add --import MODULE, or Replayer(modules=[...]) in Python; if not, a newer flykka has recorded the"
            " trace, and can replay it",
        )


class UnresolvedPropsError(TraceError):
    """An actor of a trace cannot be created here. The message gives the reason."""


class ReplaySessionError(KernelError, ValueError):
    """A replayed trace has no such turn, actor, or type of turn."""


class ForkError(ReplaySessionError):
    """A fork of a replayed trace cannot have this fault at this turn."""


class InvalidActorNameError(KernelError):
    """An actor cannot have this name here."""


class SpawnRefusedError(KernelError):
    """The parent is stopping or has ended."""


class ProxyNotSupportedError(KernelError):
    """Proxies are refused: a proxy would send arbitrary objects, and access the live actor from another thread."""


class ActorInitializationError(KernelError):
    """The factory or `pre_start` of an actor failed. The cause is chained."""


class DeathPactError(KernelError):
    """A watched actor has ended, and the watcher does not handle this, so it ends too (Akka's DeathPactException)."""


class ActorDeadError(KernelError, pykka.ActorDeadError):
    """The asked actor ended, or had ended, without a reply."""


class AskTimeoutError(KernelError, pykka.Timeout):
    """There was no reply within the timeout of the ask."""


class AskFailedError(KernelError):
    """The asked actor raised. `failure` is the exception as text: the live exception would keep its frames alive."""

    def __init__(self, failure: SerializedThrowable) -> None:
        super().__init__(f"{failure.type_name}: {failure.message}")
        self.failure = failure


class ReplyReturnedError(KernelError, TypeError):
    """The asked actor returned its reply, as Pykka actors do, and sent none."""


class AskCycleError(KernelError):
    """A blocking ask that could never get a reply, because its chain of waiting actors leads back to the asker."""


class MailboxOverflowError(KernelError):
    """The message was dropped, or displaced by a newer one, because the mailbox of the asked actor is full."""


class StashError(KernelError):
    """No message is being handled that could be stashed, or it is already stashed."""


class StashOverflowError(StashError):
    """The stash is full."""


class WaitInTurnError(KernelError):
    """An actor must not wait, in a turn, for an end that comes after this turn: of itself, a parent, or its system."""


class BlockingInLoopError(KernelError):
    """An actor on an event loop must await a future: blocking would also block every other actor of that loop."""


class ForeignAwaitError(KernelError, NotImplementedError):
    """An actor on a seeded dispatcher used a socket, a process or the like, which no seed could reproduce."""


class NondeterminismError(KernelError):
    """A turn has read the real clock, slept, or used an external resource. The message names the line and a remedy."""


class CircuitBreakerOpenError(KernelError):
    """The circuit breaker rejects all calls. It tries a call in `remaining_ms`, which is 0 while it is trying one."""

    def __init__(self, name: str, remaining_ms: int) -> None:
        until = f"the next trial call is in {remaining_ms} ms" if remaining_ms else "a trial call is running"
        super().__init__(f"circuit breaker {name!r} is open: {until}")
        self.remaining_ms = remaining_ms


class CircuitBreakerTimeoutError(KernelError):
    """The call took longer than the circuit breaker allows. It may still be running, and may complete."""

    def __init__(self, name: str, timeout_ms: int) -> None:
        super().__init__(f"circuit breaker {name!r}: the call took longer than {timeout_ms} ms")


class FutureCancelledError(KernelError):
    """The future was cancelled before it had a result."""


class ShutdownBegunError(KernelError):
    """The coordinated shutdown is past the phase of this task."""


class TerminationTimeoutError(KernelError):
    """The system was terminated and had not ended at the deadline."""

    def __init__(self, system: str, stragglers: Sequence[str]) -> None:
        super().__init__(f"actor system {system} still runs: {', '.join(stragglers)}")
        self.stragglers = tuple(stragglers)


def serialized(error: BaseException) -> SerializedThrowable:
    """Return a live exception as text that can be sent and stored, without the secrets of this process."""
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
