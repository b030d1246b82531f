"""What a kind of mailbox brings: the queue of its messages. Signals, scheduling and closing are every mailbox's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flykka.messages.control.leader import LeaderSessionMessage
from flykka.runtime.mailbox.envelope import Envelope, Told

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

Entry = Told | Envelope


class MessageQueue(Protocol):
    """As much of a deque as a mailbox needs (Akka's MessageQueue).

    Any thread may call any method at any moment, and no entry may be lost on the way or come out twice: a kill empties
    the queue from its own thread while the actor's thread takes from it and others append.
    """

    def append(self, entry: Entry, /) -> None:
        """Queue an entry."""

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        """Queue entries ahead of those that wait, the first one last."""

    def popleft(self) -> Entry:
        """The next entry. Raises `IndexError` where there is none."""

    def __len__(self) -> int:
        """How many entries wait."""


class MailboxType(Protocol):
    """A kind of mailbox, as `Props.with_mailbox` takes it: a value, used for every actor of these Props."""

    def create(self, owner: Cell) -> MessageQueue:
        """The queue of one actor, made when the actor is spawned; a restart keeps it."""


@dataclass(frozen=True, slots=True)
class UnboundedMailbox:
    """First in, first out, without a limit (Akka's UnboundedMailbox); the kind of all who ask for no other."""

    def create(self, owner: Cell) -> MessageQueue:
        """A deque, whose every operation is atomic."""
        return deque()


def message_of(entry: Entry) -> Message:
    """The message of an entry, out of its leader's wrapping."""
    # Asked for each message of a busy actor: no envelope is made for it.
    if isinstance(entry, tuple):
        entry = entry[0]
    elif isinstance(entry, Envelope):
        entry = entry.message
    return entry.message if type(entry) is LeaderSessionMessage else entry
