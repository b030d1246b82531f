"""What a trace tells: turns with their effects, kills, and dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Value
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import TurnKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A flight recorder wrote the trace: of all records it kept at most `limit`, and `not_kept` came before.

    `begins_at` is the lowest sequence number that is there, None where there is no record at all.
    """

    limit: int
    not_kept: int
    begins_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHeader:
    """What was recorded, and by which version. `ring` is None where the recording is whole from the beginning on."""

    format_version: int
    system: str
    seed: int
    package: str
    python: str
    hash_seed: str
    ring: Ring | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """A message that could not be read here, or not be written there."""

    data: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Told `target` a message."""

    target: Ref
    message: Value | Undecoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answered the ask behind `target`."""

    target: Ref
    message: Value | Undecoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Spawned an actor."""

    ref: Ref


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
    """Started a timer: first in `first_ms`, then each `delay_ms`, None for once."""

    key: str
    first_ms: int
    message: Value | Undecoded
    delay_ms: int | None


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
    """Had blocking work begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stash:
    """Put the message aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstashAll:
    """Put the `count` messages that it had stashed ahead of those that waited."""

    count: int


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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An actor handled a message, a timer's message or a kernel signal.

    `cause` is the sequence number of the turn that sent it, None from outside. `failure` is what the turn raised.
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


Record = Turn | Killed | DeadLetterRecord
