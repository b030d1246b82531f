"""The mailbox with a limit, and its overflow strategies."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from flykka.runtime.events import DeadLetter, MailboxOverflowed
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.mailbox.message_queue import Entry, MessageQueue

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell

Overflow = Literal["drop_new", "drop_oldest", "fail"]


@dataclass(frozen=True, slots=True)
class BoundedMailbox:
    """At most `capacity` messages wait (Akka's BoundedMailbox, with the overflow strategies of Akka's streams).

    Telling a full mailbox neither blocks nor raises. By `overflow`:

    - `drop_new`: it becomes a dead letter;
    - `drop_oldest`: the one that has waited longest becomes a dead letter in its place;
    - `fail`: as `drop_new`, and the event stream gets a `MailboxOverflowed`, for supervisors of the system.

    The reason of the dead letter names the capacity. If the lost message was asked, the asker gets a
    `MailboxOverflowError` at once. Signals always find room, and so do `Terminated`, timers, and messages that were
    stashed.
    """

    capacity: int
    overflow: Overflow = "drop_new"

    def __post_init__(self) -> None:
        if type(self.capacity) is not int or self.capacity < 1:
            raise ValueError(f"the capacity of a mailbox is a whole number above 0, not {self.capacity!r}")
        if self.overflow not in get_args(Overflow):
            raise ValueError(f"no overflow {self.overflow!r}: there are 'drop_new', 'drop_oldest' and 'fail'")

    def create(self, owner: Cell) -> MessageQueue:
        """Make an empty queue."""
        return _BoundedQueue(owner, self)


class _BoundedQueue:
    __slots__ = ("_cell", "_entries", "_lock", "_type")

    def __init__(self, cell: Cell, mailbox_type: BoundedMailbox) -> None:
        self._cell = cell
        self._type = mailbox_type
        self._entries: deque[Entry] = deque()
        self._lock = threading.Lock()

    def append(self, entry: Entry, /) -> None:
        with self._lock:
            if len(self._entries) < self._type.capacity or _is_owed(entry):
                self._entries.append(entry)
                return
            lost = self._make_room_for(entry)
        # Outside the lock: subscribers may tell this very actor.
        self._lose(Envelope.wrap(lost))

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        with self._lock:
            self._entries.extendleft(entries)

    def popleft(self) -> Entry:
        with self._lock:
            return self._entries.popleft()

    def __len__(self) -> int:
        return len(self._entries)

    def _make_room_for(self, entry: Entry) -> Entry:
        """Return the entry that is lost for it: itself where no other may be."""
        if self._type.overflow == "drop_oldest":
            for place, waiting in enumerate(self._entries):
                if not _is_owed(waiting):
                    del self._entries[place]
                    self._entries.append(entry)
                    return waiting
        return entry

    def _lose(self, envelope: Envelope) -> None:
        cell, capacity = self._cell, self._type.capacity
        cell.system.dead_letters.overflowed(envelope, cell.ref, f"the mailbox is full: its capacity is {capacity}")
        # The event of a lost event would go round for ever.
        if self._type.overflow == "fail" and not isinstance(envelope.message, DeadLetter | MailboxOverflowed):
            cell.system.event_stream.publish(MailboxOverflowed(ref=cell.ref, capacity=capacity))


def _is_owed(entry: Entry) -> bool:
    """Tell whether the kernel has promised its delivery."""
    return isinstance(entry, Envelope) and not entry.told
