"""Effects of a turn, and its inputs other than messages.

A turn records an effect as a tuple: the kind, which is the name of its class in snake case, and the values of its
fields. A trace contains the code of the class, its position in this file, instead of the kind. So classes, and fields
within a class, are only ever added at the end, and an added field has a default.
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
    from flykka.runtime.recording import Effect as EffectTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """A message that could not be read here, or that the recorder could not write."""

    data: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The base class of effects. `words` is a short description with the placeholder `{0}` for the effect."""

    words: ClassVar[str] = ""


class Operand(Enum):
    """The type of a field's value, which determines its form in a trace."""

    REF = auto()
    """The index of a ref in its block, or None."""
    REFS = auto()
    VALUE = auto()
    """The index of a value in its block, or None."""
    PLAIN = auto()
    """The value itself: None, a text, a number, or a tuple of several."""


E = TypeVar("E", bound=Effect)

EFFECTS: list[type[Effect]] = []
CODES: dict[str, int] = {}
OPERANDS: list[tuple[tuple[str, Operand], ...]] = []
PLAIN_TYPES: list[dict[str, frozenset[type]]] = []
"""The types that fields of each class may have in a trace, by its code. None for fields that are not plain values."""
SEND = 0
"""The code of the most frequent effect."""

_BY_NAME = {"bool": bool, "int": int, "str": str, "tuple[str, ...]": list, "LeaderSessionId": str, "None": type(None)}

_WORD_BEGINS = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def _effect(words: str) -> Callable[[type[E]], type[E]]:
    def declare(cls: type[E]) -> type[E]:
        declared = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        declared.words = words
        CODES[_WORD_BEGINS.sub("_", declared.__name__).lower()] = len(EFFECTS)
        EFFECTS.append(declared)
        OPERANDS.append(tuple((field.name, _operand(str(field.type))) for field in fields(declared)))
        PLAIN_TYPES.append({field.name: _types(str(field.type)) for field in fields(declared)})
        return declared

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


def effect_of(effect_tuple: EffectTuple) -> Effect:
    code = CODES[effect_tuple[0]]
    operands = {name: operand for (name, _), operand in zip(OPERANDS[code], effect_tuple[1:], strict=False)}
    return EFFECTS[code](**operands)


@_effect("sends {0.message} to {0.target.path}")
class Send(Effect):
    """A message to `target`. If `forwarded`, it has its original sender.

    For an ask, `promise` is the ref that waits for the reply.
    """

    target: Ref
    message: Value | Undecoded
    promise: Ref | None = None
    forwarded: bool = False


@_effect("replies {0.message}")
class Reply(Effect):
    """A reply to the ask of `target`."""

    target: Ref
    message: Value | Undecoded


@_effect("spawns {0.ref.path}")
class Spawn(Effect):
    """A spawned actor. `actor` is the name of its class or factory, a tag or "module:Qualname"."""

    ref: Ref
    actor: str = ""


@_effect("stops {0.ref.path}")
class Stop(Effect):
    """A request to stop a child, another actor or the actor itself."""

    ref: Ref


@_effect("watches {0.ref.path}")
class Watch(Effect):
    """A watch. `message` is sent when `ref` has ended; None means `Terminated`."""

    ref: Ref
    message: Value | Undecoded | None


@_effect("unwatches {0.ref.path}")
class Unwatch(Effect):
    """The end of a watch."""

    ref: Ref


@_effect("starts timer {0.key} in {0.first_ms} ms")
class StartTimer(Effect):
    """A started timer that fires first after `first_ms`, then every `delay_ms` (None: once).

    The delay counts from the handling of its message or, with `fixed_rate`, from its firing.
    """

    key: str
    first_ms: int
    message: Value | Undecoded
    delay_ms: int | None
    fixed_rate: bool = False


@_effect("cancels timer {0.key}")
class CancelTimer(Effect):
    key: str


@_effect("sets a receive timeout of {0.timeout_ms} ms")
class SetReceiveTimeout(Effect):
    """The actor's receive timeout. None means no timeout."""

    timeout_ms: int | None


@_effect("begins blocking work")
class Pipe(Effect):
    """The start of blocking work. `work` is a `BlockingWork`."""

    work: Value | Undecoded | None = None


@_effect("stashes the message")
class Stash(Effect):
    """The message was stashed."""


@_effect("unstashes {0.count} messages")
class UnstashAll(Effect):
    """The `count` stashed messages were queued ahead of the waiting ones."""

    count: int


@_effect("rejects the message: {0.reason}")
class Reject(Effect):
    """The current message was made a dead letter."""

    reason: str


@_effect("publishes {0.message}")
class Publish(Effect):
    """An event published on the event stream."""

    message: Value | Undecoded


@_effect("subscribes {0.subscriber} to")
class Subscribe(Effect):
    """`subscriber`, a ref or the name of a function, subscribed to events of some classes."""

    subscriber: str
    types: tuple[str, ...]


@_effect("unsubscribes {0.subscriber} from")
class Unsubscribe(Effect):
    """The end of a subscription to `types`, or of all subscriptions if there are none."""

    subscriber: str
    types: tuple[str, ...]


@_effect("takes over a {0.resource}")
class Own(Effect):
    """A resource that the actor now owns. Only its class is recorded."""

    resource: str


@_effect("becomes {0.behaviour}")
class Become(Effect):
    """A behaviour for the next messages. With `discard_old` it replaces the current one."""

    behaviour: str
    discard_old: bool


@_effect("unbecomes")
class Unbecome(Effect):
    """A return to the previous behaviour."""


@_effect("accepts session {0.leader_session_id}")
class AcceptSession(Effect):
    """Messages of a leader session are accepted."""

    leader_session_id: LeaderSessionId


@_effect("revokes session {0.leader_session_id}")
class RevokeSession(Effect):
    """Messages of a leader session are no longer accepted."""

    leader_session_id: LeaderSessionId


@_effect("decides {0.directive} for {0.child.path}")
class Supervise(Effect):
    """A decision about the failure of a child. `directive` is the name of a `Directive`, `delay_ms` the backoff."""

    child: Ref
    directive: str
    delay_ms: int


@_effect("kills {0.ref.path}")
class Kill(Effect):
    """A killed actor. Records of the kills of its descendants follow."""

    ref: Ref


@_effect("terminates the system")
class Terminate(Effect):
    """The termination of the whole system."""


@_effect("looks up {0.path}")
class Lookup(Effect):
    """The actors that lived at a path or for a ref. An input rather than an effect, which a replay provides."""

    path: str
    refs: tuple[Ref, ...]


@_effect("goes on")
class Awaited(Effect):
    """The outcome of a wait for an ask and, in a coroutine, for a sleep or another future.

    Outcomes are in the order in which the turn continued. `message` is the reply, or None for a sleep and for a future
    whose result is not a message. `failure` is the exception raised by the wait, and `promise` the ref that waited for
    the reply of an ask.
    """

    now_ms: int
    message: Value | Undecoded | None
    failure: SerializedThrowable | None
    promise: Ref | None = None


@_effect("reads the clock")
class ReadClock(Effect):
    """The time read in a coroutine's step that no recorded outcome has started. An input of the turn, like a lookup."""

    now_ms: int


@_effect("is refused {0.path}: {0.reason}")
class Refused(Effect):
    """A spawn at `path` was refused with this error. It is an input of the turn, like a lookup."""

    path: str
    error: str
    reason: str


@_effect("is killed")
class CutShort(Effect):
    """The actor was killed during this turn. Effects after the kill are not recorded, because they never happened."""
