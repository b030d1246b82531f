"""Message queues: the part in which kinds of mailbox differ. Signals, scheduling and closing are the same in all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flykka.messages.control.high_availability import LeaderSessionMessage
from flykka.runtime.mailbox.envelope import Envelope, Told

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

Entry = Told | Envelope


class MessageQueue(Protocol):
    """The methods of a deque that a mailbox needs (Akka's MessageQueue).

    Any thread may call any method at any moment, and no entry may be lost or come out twice: a kill empties the queue
    on its thread while the actor's thread pops and others append.
    """

    def append(self, entry: Entry, /) -> None:
        """Queue an entry."""

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        """Queue entries ahead of those that wait, the first one last."""

    def popleft(self) -> Entry:
        """Pop the next entry. Raises `IndexError` where there is none."""

    def __len__(self) -> int:
        """Count the entries."""


class MailboxType(Protocol):
    """Kind of mailbox for `Props.with_mailbox`: a value, used for every actor of these Props."""

    def create(self, owner: Cell) -> MessageQueue:
        """Make the queue of an actor that is spawned; a restart keeps it."""


@dataclass(frozen=True, slots=True)
class UnboundedMailbox:
    """First in, first out, without a limit (Akka's UnboundedMailbox); the default."""

    def create(self, owner: Cell) -> MessageQueue:
        """Make a deque, whose every operation is atomic."""
        return deque()


def message_of(entry: Entry) -> Message:
    """Return the message of an entry, without a leader's wrapping."""
    # Called for each message of a busy actor: no envelope is made for it.
    if isinstance(entry, tuple):
        entry = entry[0]
    elif isinstance(entry, Envelope):
        entry = entry.message
    return entry.message if type(entry) is LeaderSessionMessage else entry
