"""Effects of a turn, and what came into the turn that was no message.

A turn notes an effect as a tuple: the kind, which is the name of its class in snake case, and the values of its fields.
In a trace stands the code of the class, its place in this file, in the place of the kind. So classes, and fields within
a class, are only ever added at the end, and an added field has a default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ids import LeaderSessionId
    from flykka.messages.wire.message import Value
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.recording import Effect as Noted


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """A message that could not be read here, or not be written there."""

    data: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Kind of effects. `words` tell it in short, `{0}` being the effect."""

    words: ClassVar[str] = ""


class Operand(Enum):
    """Says what the value of a field is, and so what stands for it in a trace."""

    REF = auto()
    """The number of a ref in its block, or None."""
    REFS = auto()
    VALUE = auto()
    """The number of a value in its block, or None."""
    PLAIN = auto()
    """Itself: None, a text, a number, or several in a tuple."""


E = TypeVar("E", bound=Effect)

EFFECTS: list[type[Effect]] = []
"""The classes by their codes."""
CODES: dict[str, int] = {}
"""The codes by the kinds."""
OPERANDS: list[tuple[tuple[str, Operand], ...]] = []
"""The fields of each class, by its code."""
PLAIN_TYPES: list[dict[str, frozenset[type]]] = []
"""The types that the fields of each class may have in a trace, by its code; of those that are no plain values, None."""
SEND = 0
"""The code of what most effects are."""

_BY_NAME = {"bool": bool, "int": int, "str": str, "tuple[str, ...]": list, "LeaderSessionId": str, "None": type(None)}

_WORD_BEGINS = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def _effect(words: str) -> Callable[[type[E]], type[E]]:
    def declare(cls: type[E]) -> type[E]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.words = words
        CODES[_WORD_BEGINS.sub("_", made.__name__).lower()] = len(EFFECTS)
        EFFECTS.append(made)
        OPERANDS.append(tuple((field.name, _operand(str(field.type))) for field in fields(made)))
        PLAIN_TYPES.append({field.name: _types(str(field.type)) for field in fields(made)})
        return made

    return declare


def _operand(annotation: str) -> Operand:
    match annotation.removesuffix(" | None"):
        case "Ref":
            return Operand.REF
        case "tuple[Ref, ...]":
            return Operand.REFS
        case "Value | Undecoded" | "SerializedThrowable":
            return Operand.VALUE
        case _:
            return Operand.PLAIN


def _types(annotation: str) -> frozenset[type]:
    return frozenset(_BY_NAME[name] for name in annotation.split(" | ") if name in _BY_NAME)


def effect_of(noted: Noted) -> Effect:
    """The record of an effect that was noted in passing."""
    code = CODES[noted[0]]
    told = {name: operand for (name, _), operand in zip(OPERANDS[code], noted[1:], strict=False)}
    return EFFECTS[code](**told)


@_effect("sends {0.message} to {0.target.path}")
class Send(Effect):
    """Told `target` a message; `forwarded` in the name of its own sender.

    Where it was asked, `promise` is the ref that waits for the reply.
    """

    target: Ref
    message: Value | Undecoded
    promise: Ref | None = None
    forwarded: bool = False


@_effect("replies {0.message}")
class Reply(Effect):
    """Answered the ask behind `target`."""

    target: Ref
    message: Value | Undecoded


@_effect("spawns {0.ref.path}")
class Spawn(Effect):
    """Spawned an actor; `actor` is the name of its class or factory, a tag or "module:Qualname"."""

    ref: Ref
    actor: str = ""


@_effect("stops {0.ref.path}")
class Stop(Effect):
    """Had an actor stopped, or itself."""

    ref: Ref


@_effect("watches {0.ref.path}")
class Watch(Effect):
    """Began to watch; `message` is what it wants to get, None for `Terminated`."""

    ref: Ref
    message: Value | Undecoded | None


@_effect("unwatches {0.ref.path}")
class Unwatch(Effect):
    """Ended a watch."""

    ref: Ref


@_effect("starts timer {0.key} in {0.first_ms} ms")
class StartTimer(Effect):
    """Started a timer: first in `first_ms`, then each `delay_ms`, None for once.

    The delay counts from the handling of its message, with `fixed_rate` from its firing.
    """

    key: str
    first_ms: int
    message: Value | Undecoded
    delay_ms: int | None
    fixed_rate: bool = False


@_effect("cancels timer {0.key}")
class CancelTimer(Effect):
    """Cancelled a timer."""

    key: str


@_effect("sets a receive timeout of {0.timeout_ms} ms")
class SetReceiveTimeout(Effect):
    """Set its receive timeout, None for off."""

    timeout_ms: int | None


@_effect("begins blocking work")
class Pipe(Effect):
    """Had blocking work begun: `work` is a `BlockingWork`."""

    work: Value | Undecoded | None = None


@_effect("stashes the message")
class Stash(Effect):
    """Put the message aside."""


@_effect("unstashes {0.count} messages")
class UnstashAll(Effect):
    """Put the `count` messages that it had stashed ahead of those that waited."""

    count: int


@_effect("rejects the message: {0.reason}")
class Reject(Effect):
    """Made the message in hand a dead letter."""

    reason: str


@_effect("publishes {0.message}")
class Publish(Effect):
    """Published an event on the event stream."""

    message: Value | Undecoded


@_effect("subscribes {0.subscriber} to")
class Subscribe(Effect):
    """Had `subscriber`, a ref or the name of a function, get the events of some classes."""

    subscriber: str
    types: tuple[str, ...]


@_effect("unsubscribes {0.subscriber} from")
class Unsubscribe(Effect):
    """Had it get them no more; no `types` for all."""

    subscriber: str
    types: tuple[str, ...]


@_effect("takes over a {0.resource}")
class Own(Effect):
    """Took over a resource, of which only the class is known."""

    resource: str


@_effect("becomes {0.behaviour}")
class Become(Effect):
    """Had a behaviour handle its next messages; `discard_old` in the place of the one in hand."""

    behaviour: str
    discard_old: bool


@_effect("unbecomes")
class Unbecome(Effect):
    """Went back to the behaviour underneath."""


@_effect("accepts session {0.leader_session_id}")
class AcceptSession(Effect):
    """Let through what is said under a leader session."""

    leader_session_id: LeaderSessionId


@_effect("revokes session {0.leader_session_id}")
class RevokeSession(Effect):
    """Let it through no more."""

    leader_session_id: LeaderSessionId


@_effect("decides {0.directive} for {0.child.path}")
class Supervise(Effect):
    """Decided about the failure of a child: `directive` is the name of a `Directive`, `delay_ms` the backoff."""

    child: Ref
    directive: str
    delay_ms: int


@_effect("kills {0.ref.path}")
class Kill(Effect):
    """Killed an actor; records of the kills of everyone below it come behind."""

    ref: Ref


@_effect("terminates the system")
class Terminate(Effect):
    """Had the whole system end."""


@_effect("looks up {0.path}")
class Lookup(Effect):
    """Found out who lived at a path or behind a ref at that moment. Not a deed but an answer, that a replay gives."""

    path: str
    refs: tuple[Ref, ...]


@_effect("goes on")
class Awaited(Effect):
    """Went on with the outcome of what it had waited for: an ask, in a coroutine a sleep or another future too.

    The outcomes stand in the order in which the turn went on. `message` is the reply, None for a sleep and for a
    future of something that is no message; `failure` is what the waiting raised, and `promise` the ref that has waited
    for the reply of an ask.
    """

    now_ms: int
    message: Value | Undecoded | None
    failure: SerializedThrowable | None
    promise: Ref | None = None


@_effect("reads the clock")
class ReadClock(Effect):
    """Read the time in a step of a coroutine that began with none of the outcomes above. An answer, as a lookup is."""

    now_ms: int


@_effect("is refused {0.path}: {0.reason}")
class Refused(Effect):
    """Was not let spawn at `path`, for which an error of this name was raised. An answer, as a lookup is."""

    path: str
    error: str
    reason: str


@_effect("is killed")
class CutShort(Effect):
    """Was killed while it took this turn: what came behind the kill is on no record, for nobody heard of it."""
