"""Records of a trace: spawns from outside of turns, turns with their effects, kills, and dead letters.

The `effects` of a turn are everything that it did to others and to its own mailbox, timers and behaviour. They include,
in order, the turn's inputs other than messages: the outcome of an ask or a sleep for which the turn waited, and the
actors that it looked up. So a record contains everything needed to replay the turn and to compare it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flykka.messages.wire.ref import Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Value
    from flykka.runtime.mailbox.envelope import TurnKind
    from flykka.runtime.trace.effects import Effect, Undecoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The last records of a run, which `not_kept` records preceded. A flight recorder has at most `limit` records, a
    ring at least.

    `begins_at` is the lowest sequence number that is present, or None if there is no record.
    """

    limit: int
    not_kept: int
    begins_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """The file has reached `max_bytes`, so the record `sequence` and all later records are missing."""

    sequence: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHeader:
    """Facts about a recording and the version that wrote it. `ring` is None if the recording starts at the beginning.

    `schemas` has a hash of the declared fields for each tag of a recorded message. `modules` has a hash of the source
    for each module of a recorded actor and for its package. `revision` is the git commit of the directory in which the
    program ran. `redacted` are the tags of messages that were changed before they were written. `capped` is set if the
    recording reached its size cap.
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


def recorded_ref(path: object, incarnation: object) -> Ref:
    if type(path) is not str or path[:1] != "/" or type(incarnation) is not int or incarnation < 0:
        raise TypeError(f"{path!r}, {incarnation!r} is not the address of an actor")
    return Ref(path, incarnation)


class _Unread:
    """A record whose content is decoded on first access, because most readers use few of many records."""

    __slots__ = ("_read",)

    _read: Callable[[str], object]

    @property
    def unread(self) -> object | None:
        """The packed content as the reader holds it, or None for a record that was created complete."""
        return getattr(self, "_read", None)

    def __getattr__(self, name: str) -> object:
        # Python calls this for an unset slot. If any slot is unset, `_read` is set.
        if name not in _READ_LATER:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self._read(name)
        object.__setattr__(self, name, value)
        return value


_READ_LATER = frozenset({"message", "effects", "failure"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(_Unread):
    """A turn: an actor handled a message, a timer's message or a kernel signal.

    `cause` is the sequence number of the turn that sent the message, or None from outside. `failure` is the exception
    of the turn. `digest` is the digest of the actor's state after the turn, if digests were recorded.
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
    """An actor was spawned from outside any turn, under `parent`. Its first turn has a higher number.

    `actor` is the name of its class or factory, a tag or "module:Qualname". `props` are packed by `pack_props`.
    """

    sequence: int
    now_ms: int
    ref: Ref
    parent: Ref
    actor: str
    props: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """An actor was killed. It has no turn with a higher sequence number."""

    sequence: int
    now_ms: int
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    sequence: int
    now_ms: int
    message: Value | Undecoded
    sender: Ref | None
    recipient: Ref
    reason: str


Record = Spawned | Turn | Killed | DeadLetterRecord
