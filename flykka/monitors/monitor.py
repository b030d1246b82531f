"""The base of monitors, and the violations that they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from flykka.messages.checkpointing.checkpoint import TaskCheckpointMessages
from flykka.messages.control.high_availability import LeaderSessionMessage
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.effects import Send, Undecoded
from flykka.runtime.trace.records import Killed, Record, Turn


@dataclass(frozen=True, slots=True)
class Violation:
    """A law of the protocol that was broken. `turn` is the sequence number of the turn that did it, where one did."""

    monitor: str
    text: str
    turn: int | None = None

    def __str__(self) -> str:
        where = "" if self.turn is None else f"turn {self.turn}  "
        return f"{where}{self.text} [{self.monitor}]"


class Monitor(Protocol):
    """Is shown a run record by record, in the order in which turns began, and says what is wrong with it."""

    def observe(self, record: Record) -> Iterable[Violation]:
        """This has happened."""

    def end(self) -> Iterable[Violation]:
        """The run is over, by itself: nothing follows. Not called for a run that was cut off."""


_REMEMBERED = 1_024
"""So many killed actors are not forgotten yet."""

_FOR_ALL = frozenset({DeathWatchNotification, TaskCheckpointMessages})

Said = Value | Undecoded
OnReceived = Callable[[Turn, Any], Iterable[Violation] | None]
OnSent = Callable[[Turn, Ref, Any], Iterable[Violation] | None]
"""A function that only takes note of a message returns nothing."""


def said(message: Said) -> Said:
    """The message, out of its leader's wrapping where it has one."""
    return message.message if isinstance(message, LeaderSessionMessage) else message


def each_said(message: Said) -> tuple[Said, ...]:
    """The messages in a message: several where a TaskManager is told of several tasks."""
    inner = said(message)
    return inner.messages if type(inner) is TaskCheckpointMessages else (inner,)


class ConversationMonitor:
    """A monitor of certain messages. It tells by their classes which ones it wants to see, received and sent.

    Within a turn the message that was received comes first, then those that were sent, in their order.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._conversation: Conversation | None = None

    def received(self) -> Mapping[type, OnReceived]:
        """The function to call when an actor handles a message of this class."""
        return {}

    def sent(self) -> Mapping[type, OnSent]:
        """The function to call when an actor has sent a message of this class."""
        return {}

    def raised(self, turn: Turn) -> Iterable[Violation]:
        """The turn has raised its `failure`."""
        return ()

    def ended(self, ref: Ref) -> None:
        """The actor has ended: nothing more comes from it."""

    def observe(self, record: Record) -> Iterable[Violation]:
        """Watch a record, for this monitor alone."""
        if self._conversation is None:
            self._conversation = Conversation((self,))
        return self._conversation.observe(record)

    def end(self) -> Iterable[Violation]:
        """The run is over. Most laws are broken before that, or not at all."""
        return ()

    def violation(self, turn: Turn, text: str) -> Violation:
        message = said(turn.message)
        kind = "an unreadable message" if isinstance(message, Undecoded) else type(message).__name__
        return Violation(self.name, f"{turn.recipient.path} <- {kind}: {text}", turn.sequence)


class Conversation:
    """Shows each record to those of several monitors that want to see it, at the price of a look at each message."""

    def __init__(self, monitors: Iterable[ConversationMonitor]) -> None:
        self._monitors = tuple(monitors)
        self._received = _merged(monitor.received() for monitor in self._monitors)
        self._sent = _merged(monitor.sent() for monitor in self._monitors)
        self._killed: dict[Ref, None] = {}

    def observe(self, record: Record) -> Iterator[Violation]:
        """Watch a record."""
        if isinstance(record, Turn):
            message = said(record.message)
            for on_received in self._received.get(type(message), ()):
                yield from on_received(record, message) or ()
            for effect in record.effects:
                if type(effect) is Send:
                    for told in each_said(effect.message):
                        for on_sent in self._sent.get(type(told), ()):
                            yield from on_sent(record, effect.target, told) or ()
            if record.failure is not None:
                for monitor in self._monitors:
                    yield from monitor.raised(record)
            if isinstance(message, DeathWatchNotification) and message.ref not in self._killed:
                self._end(message.ref)
        elif isinstance(record, Killed):
            # The turn that it was in ends on its own thread, and comes later.
            self._killed[record.ref] = None
            if len(self._killed) > _REMEMBERED:
                self._end(next(iter(self._killed)))

    def is_about(self, kind: type, *, is_sent: bool) -> bool:
        """True if a monitor wants messages of this class."""
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
