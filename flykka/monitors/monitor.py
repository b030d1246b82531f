"""The base classes of monitors, and the violations that they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from flykka.messages.checkpointing.checkpoint import TaskCheckpointMessages
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.effects import Send, Undecoded
from flykka.runtime.trace.records import Killed, Record, Turn


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of a protocol rule. `turn` is the sequence number of the turn that caused the violation, if any."""

    monitor: str
    text: str
    turn: int | None = None

    def __str__(self) -> str:
        prefix = "" if self.turn is None else f"turn {self.turn}  "
        return f"{prefix}{self.text} [{self.monitor}]"


class Monitor(Protocol):
    """Receives the records of a run in the order in which turns began, and reports violations."""

    def observe(self, record: Record) -> Iterable[Violation]: ...

    def end(self) -> Iterable[Violation]:
        """Observe that the run has ended normally. Not called for an interrupted run."""


_REMEMBERED = 1_024

_FOR_ALL = frozenset({DeathWatchNotification, TaskCheckpointMessages})

Content = Value | Undecoded
OnReceived = Callable[[Turn, Any], Iterable[Violation] | None]
OnSent = Callable[[Turn, Ref, Any], Iterable[Violation] | None]


def unwrapped(message: Content) -> Content:
    """Return the message without the envelope of its leader session, if any."""
    return message.message if isinstance(message, LeaderSessionMessage) else message


def unwrapped_messages(message: Content) -> tuple[Content, ...]:
    """Return the messages in an envelope. A TaskManager gets several if one message addresses several tasks."""
    inner = unwrapped(message)
    return inner.messages if type(inner) is TaskCheckpointMessages else (inner,)


class ConversationMonitor:
    """A monitor of received and sent messages, which it selects by class.

    Within a turn the received message is observed first, then the sent messages in order.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._conversation: Conversation | None = None

    def received(self) -> Mapping[type, OnReceived]:
        """Return the functions to call when an actor handles messages of these classes."""
        return {}

    def sent(self) -> Mapping[type, OnSent]:
        """Return the functions to call when an actor has sent messages of these classes."""
        return {}

    def raised(self, turn: Turn) -> Iterable[Violation]:
        return ()

    def ended(self, ref: Ref) -> None:
        """Observe the end of an actor, which sends no more messages."""

    def observe(self, record: Record) -> Iterable[Violation]:
        if self._conversation is None:
            self._conversation = Conversation((self,))
        return self._conversation.observe(record)

    def end(self) -> Iterable[Violation]:
        """Observe the end of the run. Most rules cannot be violated at this point."""
        return ()

    def violation(self, turn: Turn, text: str) -> Violation:
        message = unwrapped(turn.message)
        kind = "an unreadable message" if isinstance(message, Undecoded) else type(message).__name__
        return Violation(self.name, f"{turn.recipient.path} <- {kind}: {text}", turn.sequence)


class Conversation:
    """Dispatches each record to several monitors, with one lookup for each message."""

    def __init__(self, monitors: Iterable[ConversationMonitor]) -> None:
        self._monitors = tuple(monitors)
        self._received = _merged(monitor.received() for monitor in self._monitors)
        self._sent = _merged(monitor.sent() for monitor in self._monitors)
        self._killed: dict[Ref, None] = {}

    def observe(self, record: Record) -> Iterator[Violation]:
        if isinstance(record, Turn):
            message = unwrapped(record.message)
            for on_received in self._received.get(type(message), ()):
                yield from on_received(record, message) or ()
            for effect in record.effects:
                if type(effect) is Send:
                    for content in unwrapped_messages(effect.message):
                        for on_sent in self._sent.get(type(content), ()):
                            yield from on_sent(record, effect.target, content) or ()
            if record.failure is not None:
                for monitor in self._monitors:
                    yield from monitor.raised(record)
            if isinstance(message, DeathWatchNotification) and message.ref not in self._killed:
                self._end(message.ref)
        elif isinstance(record, Killed):
            # If a turn is running on another thread during the kill, it is recorded later.
            self._killed[record.ref] = None
            if len(self._killed) > _REMEMBERED:
                self._end(next(iter(self._killed)))

    def wants(self, kind: type, *, is_sent: bool) -> bool:
        return kind in (self._sent if is_sent else self._received) or kind in _FOR_ALL

    def _end(self, ref: Ref) -> None:
        self._killed.pop(ref, None)
        for monitor in self._monitors:
            monitor.ended(ref)


def _merged(tables: Iterable[Mapping[type, Any]]) -> dict[type, tuple[Any, ...]]:
    merged: dict[type, tuple[Any, ...]] = {}
    for table in tables:
        for kind, handler in table.items():
            merged[kind] = (*merged.get(kind, ()), handler)
    return merged
