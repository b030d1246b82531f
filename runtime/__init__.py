"""The actor kernel: Akka's model on Pykka.

Paths, mailboxes, supervision, DeathWatch, timers, dispatchers and the recorder. The package knows nothing of jobs; it
imports `messages` and is the only one that imports pykka.

Its API for actors is found here: `from flykka.runtime import Actor, ActorSystem, Props`. The names are loaded when they
are first used. flykka itself imports each from its own module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "flykka.runtime":
    raise ImportError(
        f"import this package as flykka.runtime, not as {__name__}: a second copy of every class would follow"
    )

if TYPE_CHECKING:
    from flykka.messages.wire.markers import ControlMessage as ControlMessage
    from flykka.messages.wire.markers import NotInfluenceReceiveTimeout as NotInfluenceReceiveTimeout
    from flykka.messages.wire.message import Message as Message
    from flykka.messages.wire.message import Value as Value
    from flykka.messages.wire.message import message as message
    from flykka.messages.wire.message import value as value
    from flykka.messages.wire.ref import Ref as Ref
    from flykka.messages.wire.tags import trace_tag as trace_tag
    from flykka.runtime.actor import Actor as Actor
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
    from flykka.runtime.futures.future import Future as Future
    from flykka.runtime.inspection.watchdog import SlowTurn as SlowTurn
    from flykka.runtime.mailbox.bounded import BoundedMailbox as BoundedMailbox
    from flykka.runtime.mailbox.control_aware import ControlAwareMailbox as ControlAwareMailbox
    from flykka.runtime.mailbox.message_queue import UnboundedMailbox as UnboundedMailbox
    from flykka.runtime.mailbox.stable_priority import StablePriorityMailbox as StablePriorityMailbox
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
    from flykka.runtime.time.backoff import Backoff as Backoff
    from flykka.runtime.trace.record.recorder import TraceRecorder as TraceRecorder

_NAMES = {
    "messages.wire.markers": "ControlMessage NotInfluenceReceiveTimeout",
    "messages.wire.message": "Message Value message value",
    "messages.wire.ref": "Ref",
    "messages.wire.tags": "trace_tag",
    "runtime.actor": "Actor",
    "runtime.context": "ActorContext",
    "runtime.dispatch.pool": "SharedPool",
    "runtime.errors": "ActorDeadError AskCycleError AskFailedError AskTimeoutError CircuitBreakerOpenError "
    "CircuitBreakerTimeoutError KernelError MailboxOverflowError StashError StashOverflowError "
    "TerminationTimeoutError",
    "runtime.events": "ActorFailed ActorTerminated DeadLetter MailboxOverflowed UnhandledMessage",
    "runtime.futures.future": "Future",
    "runtime.inspection.watchdog": "SlowTurn",
    "runtime.mailbox.bounded": "BoundedMailbox",
    "runtime.mailbox.control_aware": "ControlAwareMailbox",
    "runtime.mailbox.message_queue": "UnboundedMailbox",
    "runtime.mailbox.stable_priority": "StablePriorityMailbox",
    "runtime.patterns.backoff_supervisor": "BackoffOpts BackoffSupervisor",
    "runtime.patterns.circuit_breaker": "CircuitBreaker CircuitBreakerChanged CircuitBreakerState",
    "runtime.patterns.coordinated_shutdown": "CoordinatedShutdown",
    "runtime.patterns.fsm": "FSM Next StopReason when",
    "runtime.props": "Props",
    "runtime.ref": "ActorRef",
    "runtime.selection": "ActorSelection",
    "runtime.signals": "ReceiveTimeout StateTimeout Terminated",
    "runtime.supervision": "AllForOne Directive OneForOne SupervisorStrategy",
    "runtime.system": "ActorSystem",
    "runtime.time.backoff": "Backoff",
    "runtime.trace.record.recorder": "TraceRecorder",
}
_MODULES = {name: f"flykka.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
