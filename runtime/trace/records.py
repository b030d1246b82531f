"""What a trace tells: who was spawned from outside, turns with their effects, kills, and dead letters.

The effects of a turn are everything that it did to others, to its own mailbox, timers and behaviour, and beside them,
at their place, what came into the turn that was no message: the outcome of an ask or a sleep that it waited for, and
who lived where it looked somebody up. So what the record holds is enough to take the turn again and to compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.ids import LeaderSessionId
    from flykka.messages.message import Value
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import TurnKind
    from flykka.runtime.trace.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A flight recorder wrote the trace: of all records it kept at most `limit`, and `not_kept` came before.

    `begins_at` is the lowest sequence number that is there, None where there is no record at all.
    """

    limit: int
    not_kept: int
    begins_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """The file had reached `max_bytes`: the record `sequence`, and all that were noted behind it, are not in it."""

    sequence: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHeader:
    """What was recorded, and by which version. `ring` is None where the recording is whole from the beginning on.

    `schemas` has a hash of the declared fields for each tag of a recorded message, `modules` one of the source for each
    module of a recorded actor and for the package around it; `revision` is the git commit of the directory in which the
    program ran. `redacted` are the tags of messages that were changed before they were written. `capped` says where a
    size cap has ended the recording. Traces of the first format have none of these.
    """

    format_version: int
    system: str
    seed: int
    package: str
    python: str
    hash_seed: str
    ring: Ring | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    recorded_at_ms: int | None = None
    redacted: frozenset[str] = frozenset()
    capped: Capped | None = None


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
)


class _Unread:
    """A record whose contents are decoded when they are first asked for: most readers look at a few of many."""

    __slots__ = ("_read",)

    _read: Callable[[str], object]

    @property
    def unread(self) -> object | None:
        """What it is read from, as the reader keeps it; None for a record that was made whole."""
        return getattr(self, "_read", None)

    def __getattr__(self, name: str) -> object:
        # Python comes here for a slot that is not set. `_read` itself is set where other slots are not.
        if name not in _READ_LATER:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = self._read(name)
        object.__setattr__(self, name, found)
        return found


_READ_LATER = frozenset({"message", "effects", "failure"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(_Unread):
    """An actor handled a message, a timer's message or a kernel signal.

    `cause` is the sequence number of the turn that sent it, None from outside. `failure` is what the turn raised.
    `digest` is that of the actor's state behind the turn, where the recording was to have digests.
    """

    sequence: int
    now_ms: int
    recipient: Ref
    sender: Ref | None
    cause: int | None
    kind: TurnKind
    message: Value | Undecoded
    effects: tuple[Effect, ...]
    failure: SerializedThrowable | None
    digest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """An actor was spawned from outside any turn, under `parent`; its first turn has a higher number.

    `actor` is the "module:Qualname" of its class or factory. `recipe` tells how it is made.
    """

    sequence: int
    now_ms: int
    ref: Ref
    parent: Ref
    actor: str
    recipe: Recipe | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """An actor was killed; no turn of it has a higher sequence number."""

    sequence: int
    now_ms: int
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    """A message found no one to handle it."""

    sequence: int
    now_ms: int
    message: Value | Undecoded
    sender: Ref | None
    recipient: Ref
    reason: str


Record = Spawned | Turn | Killed | DeadLetterRecord
