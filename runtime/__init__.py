"""THE ACTOR KERNEL: Akka's ideas on Pykka.

Paths, mailboxes, supervision, DeathWatch, timers, dispatchers and the recorder. The room has never heard of jobs; it
imports `messages` and is the only one that imports pykka.

Who writes actors finds what is needed here: `from flykka.runtime import Actor, ActorSystem, Props`. The names are
loaded when they are first used. The house itself imports each from its own module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "flykka.runtime":
    raise ImportError(
        f"import this room as flykka.runtime, not as {__name__}: a second copy of every class would follow"
    )

if TYPE_CHECKING:
    from flykka.messages.wire.markers import ControlMessage as ControlMessage
    from flykka.messages.wire.markers import NotInfluenceReceiveTimeout as NotInfluenceReceiveTimeout
    from flykka.messages.wire.message import Message as Message
    from flykka.messages.wire.message import Value as Value
    from flykka.messages.wire.message import message as message
    from flykka.messages.wire.message import value as value
    from flykka.messages.wire.ref import Ref as Ref
    from flykka.runtime.actor import Actor as Actor
    from flykka.runtime.backoff import Backoff as Backoff
    from flykka.runtime.context import ActorContext as ActorContext
    from flykka.runtime.dispatch.pool import SharedPool as SharedPool
    from flykka.runtime.errors import ActorDeadError as ActorDeadError
    from flykka.runtime.errors import AskCycleError as AskCycleError
    from flykka.runtime.errors import AskFailedError as AskFailedError
    from flykka.runtime.errors import AskTimeoutError as AskTimeoutError
    from flykka.runtime.errors import CircuitBreakerOpenError as CircuitBreakerOpenError
    from flykka.runtime.errors import CircuitBreakerTimeoutError as CircuitBreakerTimeoutError
    from flykka.runtime.errors import KernelError as KernelError
    from flykka.runtime.errors import MailboxOverflowError as MailboxOverflowError
    from flykka.runtime.errors import StashError as StashError
    from flykka.runtime.errors import StashOverflowError as StashOverflowError
    from flykka.runtime.errors import TerminationTimeoutError as TerminationTimeoutError
    from flykka.runtime.events import ActorFailed as ActorFailed
    from flykka.runtime.events import ActorTerminated as ActorTerminated
    from flykka.runtime.events import DeadLetter as DeadLetter
    from flykka.runtime.events import MailboxOverflowed as MailboxOverflowed
    from flykka.runtime.events import UnhandledMessage as UnhandledMessage
    from flykka.runtime.future import Future as Future
    from flykka.runtime.mailboxes.bounded import BoundedMailbox as BoundedMailbox
    from flykka.runtime.mailboxes.control_aware import ControlAwareMailbox as ControlAwareMailbox
    from flykka.runtime.mailboxes.message_queue import UnboundedMailbox as UnboundedMailbox
    from flykka.runtime.mailboxes.priority import StablePriorityMailbox as StablePriorityMailbox
    from flykka.runtime.patterns.backoff_supervisor import BackoffOpts as BackoffOpts
    from flykka.runtime.patterns.backoff_supervisor import BackoffSupervisor as BackoffSupervisor
    from flykka.runtime.patterns.circuit_breaker import CircuitBreaker as CircuitBreaker
    from flykka.runtime.patterns.circuit_breaker import CircuitBreakerChanged as CircuitBreakerChanged
    from flykka.runtime.patterns.circuit_breaker import CircuitBreakerState as CircuitBreakerState
    from flykka.runtime.patterns.coordinated_shutdown import CoordinatedShutdown as CoordinatedShutdown
    from flykka.runtime.patterns.fsm import FSM as FSM
    from flykka.runtime.patterns.fsm import Next as Next
    from flykka.runtime.patterns.fsm import StopReason as StopReason
    from flykka.runtime.patterns.fsm import when as when
    from flykka.runtime.props import Props as Props
    from flykka.runtime.ref import ActorRef as ActorRef
    from flykka.runtime.selection import ActorSelection as ActorSelection
    from flykka.runtime.signals import ReceiveTimeout as ReceiveTimeout
    from flykka.runtime.signals import StateTimeout as StateTimeout
    from flykka.runtime.signals import Terminated as Terminated
    from flykka.runtime.supervision import AllForOne as AllForOne
    from flykka.runtime.supervision import Directive as Directive
    from flykka.runtime.supervision import OneForOne as OneForOne
    from flykka.runtime.supervision import SupervisorStrategy as SupervisorStrategy
    from flykka.runtime.system import ActorSystem as ActorSystem
    from flykka.runtime.trace.record.recorder import TraceRecorder as TraceRecorder
    from flykka.runtime.watchdog import SlowTurn as SlowTurn

_MODULES = {
    "Actor": "flykka.runtime.actor",
    "ActorContext": "flykka.runtime.context",
    "ActorDeadError": "flykka.runtime.errors",
    "ActorFailed": "flykka.runtime.events",
    "ActorRef": "flykka.runtime.ref",
    "ActorSelection": "flykka.runtime.selection",
    "ActorSystem": "flykka.runtime.system",
    "ActorTerminated": "flykka.runtime.events",
    "AllForOne": "flykka.runtime.supervision",
    "AskCycleError": "flykka.runtime.errors",
    "AskFailedError": "flykka.runtime.errors",
    "AskTimeoutError": "flykka.runtime.errors",
    "Backoff": "flykka.runtime.backoff",
    "BackoffOpts": "flykka.runtime.patterns.backoff_supervisor",
    "BackoffSupervisor": "flykka.runtime.patterns.backoff_supervisor",
    "BoundedMailbox": "flykka.runtime.mailboxes.bounded",
    "CircuitBreaker": "flykka.runtime.patterns.circuit_breaker",
    "CircuitBreakerChanged": "flykka.runtime.patterns.circuit_breaker",
    "CircuitBreakerOpenError": "flykka.runtime.errors",
    "CircuitBreakerState": "flykka.runtime.patterns.circuit_breaker",
    "CircuitBreakerTimeoutError": "flykka.runtime.errors",
    "ControlAwareMailbox": "flykka.runtime.mailboxes.control_aware",
    "ControlMessage": "flykka.messages.wire.markers",
    "CoordinatedShutdown": "flykka.runtime.patterns.coordinated_shutdown",
    "DeadLetter": "flykka.runtime.events",
    "Directive": "flykka.runtime.supervision",
    "FSM": "flykka.runtime.patterns.fsm",
    "Future": "flykka.runtime.future",
    "KernelError": "flykka.runtime.errors",
    "MailboxOverflowError": "flykka.runtime.errors",
    "MailboxOverflowed": "flykka.runtime.events",
    "Message": "flykka.messages.wire.message",
    "Next": "flykka.runtime.patterns.fsm",
    "NotInfluenceReceiveTimeout": "flykka.messages.wire.markers",
    "OneForOne": "flykka.runtime.supervision",
    "Props": "flykka.runtime.props",
    "ReceiveTimeout": "flykka.runtime.signals",
    "Ref": "flykka.messages.wire.ref",
    "SharedPool": "flykka.runtime.dispatch.pool",
    "SlowTurn": "flykka.runtime.watchdog",
    "StablePriorityMailbox": "flykka.runtime.mailboxes.priority",
    "StashError": "flykka.runtime.errors",
    "StashOverflowError": "flykka.runtime.errors",
    "StateTimeout": "flykka.runtime.signals",
    "StopReason": "flykka.runtime.patterns.fsm",
    "SupervisorStrategy": "flykka.runtime.supervision",
    "Terminated": "flykka.runtime.signals",
    "TerminationTimeoutError": "flykka.runtime.errors",
    "TraceRecorder": "flykka.runtime.trace.record.recorder",
    "UnboundedMailbox": "flykka.runtime.mailboxes.message_queue",
    "UnhandledMessage": "flykka.runtime.events",
    "Value": "flykka.messages.wire.message",
    "message": "flykka.messages.wire.message",
    "value": "flykka.messages.wire.message",
    "when": "flykka.runtime.patterns.fsm",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
