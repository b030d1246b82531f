"""What a turn did, effect by effect, and what came into it that was no message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ids import LeaderSessionId
    from flykka.messages.wire.message import Value
    from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """A message that could not be read here, or not be written there."""

    data: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Told `target` a message; `forwarded` in the name of its own sender.

    Where it was asked, `promise` is the ref that waits for the reply.
    """

    target: Ref
    message: Value | Undecoded
    promise: Ref | None = None
    forwarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answered the ask behind `target`."""

    target: Ref
    message: Value | Undecoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Spawned an actor; `actor` is the "module:Qualname" of its class or factory, empty in traces of format 1."""

    ref: Ref
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Was not let spawn at `path`, for which an error of this name was raised. An answer, as a lookup is."""

    path: str
    error: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Had an actor stopped, or itself."""

    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Began to watch; `message` is what it wants to get, None for `Terminated`."""

    ref: Ref
    message: Value | Undecoded | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatch:
    """Ended a watch."""

    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    """Started a timer: first in `first_ms`, then each `delay_ms`, None for once.

    The delay counts from the handling of its message, with `fixed_rate` from its firing.
    """

    key: str
    first_ms: int
    message: Value | Undecoded
    delay_ms: int | None
    fixed_rate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Cancelled a timer."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReceiveTimeout:
    """Set its receive timeout, None for off."""

    timeout_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """Had blocking work begun: `work` is a `BlockingWork`, None in traces of format 1."""

    work: Value | Undecoded | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stash:
    """Put the message aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstashAll:
    """Put the `count` messages that it had stashed ahead of those that waited."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Made the message in hand a dead letter."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Published an event on the event stream."""

    message: Value | Undecoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Had `subscriber`, a ref or the name of a function, get the events of some classes."""

    subscriber: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """Had it get them no more; no `types` for all."""

    subscriber: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Took over a resource, of which only the class is known."""

    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Become:
    """Had a behaviour handle its next messages; `discard_old` in the place of the one in hand."""

    behaviour: str
    discard_old: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbecome:
    """Went back to the behaviour underneath."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptSession:
    """Let through what is said under a leader session."""

    leader_session_id: LeaderSessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeSession:
    """Let it through no more."""

    leader_session_id: LeaderSessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervise:
    """Decided about the failure of a child: `directive` is the name of a `Directive`, `delay_ms` the backoff."""

    child: Ref
    directive: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Killed an actor; records of the kills of everyone below it come behind."""

    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class CutShort:
    """Was killed while it took this turn: what came behind the kill is on no record, for nobody heard of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Had the whole system end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Found out who lived at a path or behind a ref at that moment. Not a deed but an answer, that a replay gives."""

    path: str
    refs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadClock:
    """Read the time in a step of a coroutine that began with none of the outcomes below. An answer, as a lookup is."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """Went on with the outcome of what it had waited for: an ask, in a coroutine a sleep or another future too.

    The outcomes stand in the order in which the turn went on. `message` is the reply, None for a sleep and for a
    future of something that is no message; `failure` is what the waiting raised, and `promise` the ref that has waited
    for the reply of an ask.
    """

    now_ms: int
    message: Value | Undecoded | None
    failure: SerializedThrowable | None
    promise: Ref | None = None


Effect = (
    Send
    | Reply
    | Spawn
    | Stop
    | Watch
    | Unwatch
    | StartTimer
    | CancelTimer
    | SetReceiveTimeout
    | Pipe
    | Stash
    | UnstashAll
    | Reject
    | Publish
    | Subscribe
    | Unsubscribe
    | Own
    | Become
    | Unbecome
    | AcceptSession
    | RevokeSession
    | Supervise
    | Kill
    | Terminate
    | Lookup
    | ReadClock
    | Awaited
    | Refused
    | CutShort
)
