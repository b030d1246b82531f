"""The message queues of the mailbox types, and the types that Props can specify.

Signals, scheduling and closing are the same in all types.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.message import ControlMessage
from flykka.runtime.events import DeadLetter, MailboxOverflowed
from flykka.runtime.mailbox.envelope import Envelope, FaultEnvelope, TellEntry

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

Entry = TellEntry | Envelope


class MessageQueue(Protocol):
    """The methods of a deque that a mailbox needs (Akka's MessageQueue).

    Any thread may call any method at any time, and no entry may be lost or returned twice: a kill empties the queue on
    its thread while the actor's thread pops and others append.
    """

    def append(self, entry: Entry, /) -> None: ...

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        """Queue entries ahead of the waiting ones, in reverse order like a deque."""

    def popleft(self) -> Entry: ...

    def __len__(self) -> int: ...


class MailboxType(Protocol):
    """A mailbox type for `Props.with_mailbox`: a value, used for every actor of these Props."""

    def create(self, owner: Cell) -> MessageQueue:
        """Create the queue of a spawned actor. A restart keeps the queue."""


@dataclass(frozen=True, slots=True)
class UnboundedMailbox:
    """First in, first out, without a limit (Akka's UnboundedMailbox). This is the default."""

    def create(self, owner: Cell) -> MessageQueue:
        """Create a deque, whose operations are all atomic."""
        return deque()


def message_of(entry: Entry) -> Message:
    """Return the message of an entry, without an enclosing `LeaderSessionMessage`."""
    # Called for each message of a busy actor, so no envelope is created.
    if isinstance(entry, tuple):
        entry = entry[0]
    elif isinstance(entry, Envelope):
        entry = entry.message
    return entry.message if type(entry) is LeaderSessionMessage else entry


@dataclass(frozen=True, slots=True)
class ControlAwareMailbox:
    """Control messages overtake all others (Akka's UnboundedControlAwareMailbox).

    Their classes derive from `ControlMessage`. Messages between two actors keep their order among the control messages,
    and among the others. Unstashed messages go to the head of their lane.
    """

    def create(self, owner: Cell) -> MessageQueue:
        """Create two empty lanes."""
        return _ControlAwareQueue()


class _ControlAwareQueue:
    __slots__ = ("_control", "_data")

    def __init__(self) -> None:
        self._control: deque[Entry] = deque()
        self._data: deque[Entry] = deque()

    def append(self, entry: Entry, /) -> None:
        self._lane(entry).append(entry)

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        for entry in entries:
            self._lane(entry).appendleft(entry)

    def popleft(self) -> Entry:
        if self._control:
            try:
                return self._control.popleft()
            except IndexError:
                pass  # A kill on another thread has popped the entry. The other lane may still have entries.
        return self._data.popleft()

    def __len__(self) -> int:
        return len(self._control) + len(self._data)

    def _lane(self, entry: Entry) -> deque[Entry]:
        return self._control if isinstance(message_of(entry), ControlMessage) else self._data


Priority = Callable[["Message"], int]

_Place = tuple[float, int, Entry]
_AHEAD_OF_ALL = float("-inf")


@dataclass(frozen=True, slots=True)
class StablePriorityMailbox:
    """Lowest priority number first; equal priorities in order of arrival (Akka's UnboundedStablePriorityMailbox).

    `priority` is called once for each message, on the sender's thread, so it must be a function of the message alone.
    It is also called for the kernel's own messages, such as `Terminated`, which may therefore overtake messages of the
    dead actor. If it raises or does not return an int, the actor of this mailbox fails: its parent decides, and an ask
    fails too. Unstashed messages go ahead of others of equal priority.
    """

    priority: Priority

    def __post_init__(self) -> None:
        if not callable(self.priority):
            raise TypeError(f"the priority of a mailbox must be a function of the message, not {self.priority!r}")

    def create(self, owner: Cell) -> MessageQueue:
        """Create an empty heap."""
        return _StablePriorityQueue(self.priority)


class _StablePriorityQueue:
    __slots__ = ("_first", "_heap", "_last", "_lock", "_priority")

    def __init__(self, priority: Priority) -> None:
        self._priority = priority
        self._heap: list[_Place] = []
        self._first = 0
        self._last = 0
        self._lock = threading.Lock()

    def append(self, entry: Entry, /) -> None:
        urgency, entry = self._prioritized(entry)
        with self._lock:
            self._last += 1
            heapq.heappush(self._heap, (urgency, self._last, entry))

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        places = [self._prioritized(entry) for entry in entries]
        with self._lock:
            for urgency, entry in places:
                self._first -= 1
                heapq.heappush(self._heap, (urgency, self._first, entry))

    def popleft(self) -> Entry:
        with self._lock:
            return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)

    def _prioritized(self, entry: Entry) -> tuple[float, Entry]:
        try:
            return index(self._priority(message_of(entry))), entry
        except BaseException as error:  # noqa: BLE001 - becomes the failure of the actor that asked for this function.
            return _AHEAD_OF_ALL, _Unprioritized(Envelope.wrap(entry), error)


class _Unprioritized(FaultEnvelope):
    """The envelope of a message whose priority could not be computed."""

    __slots__ = ()

    is_user_message = True

    def __init__(self, envelope: Envelope, error: BaseException) -> None:
        super().__init__(envelope.message, error, envelope.cause)
        self.sender = envelope.sender
        self.reply_to = envelope.reply_to


Overflow = Literal["drop_new", "drop_oldest", "fail"]


@dataclass(frozen=True, slots=True)
class BoundedMailbox:
    """At most `capacity` messages wait (Akka's BoundedMailbox, with the overflow strategies of Akka's streams).

    Sending to a full mailbox neither blocks nor raises. Depending on `overflow`:

    - `drop_new`: the new message becomes a dead letter;
    - `drop_oldest`: the message that has waited longest becomes a dead letter instead;
    - `fail`: like `drop_new`, and a `MailboxOverflowed` is published on the event stream, for supervisors.

    The reason of the dead letter names the capacity. If the dropped message was an ask, the asker gets a
    `MailboxOverflowError` at once. Signals are always accepted, and so are `Terminated`, timers, and stashed messages.
    """

    capacity: int
    overflow: Overflow = "drop_new"

    def __post_init__(self) -> None:
        if type(self.capacity) is not int or self.capacity < 1:
            raise ValueError(f"the capacity of a mailbox must be a whole number above 0, not {self.capacity!r}")
        if self.overflow not in get_args(Overflow):
            raise ValueError(f"unknown overflow {self.overflow!r}: use 'drop_new', 'drop_oldest' or 'fail'")

    def create(self, owner: Cell) -> MessageQueue:
        """Create an empty queue."""
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
            if len(self._entries) < self._type.capacity or _is_always_accepted(entry):
                self._entries.append(entry)
                return
            dropped = self._make_room_for(entry)
        # Called outside the lock, because subscribers may send to this very actor.
        self._drop(Envelope.wrap(dropped))

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        with self._lock:
            self._entries.extendleft(entries)

    def popleft(self) -> Entry:
        with self._lock:
            return self._entries.popleft()

    def __len__(self) -> int:
        return len(self._entries)

    def _make_room_for(self, entry: Entry) -> Entry:
        if self._type.overflow == "drop_oldest":
            for place, queued in enumerate(self._entries):
                if not _is_always_accepted(queued):
                    del self._entries[place]
                    self._entries.append(entry)
                    return queued
        return entry

    def _drop(self, envelope: Envelope) -> None:
        cell, capacity = self._cell, self._type.capacity
        cell.system.dead_letters.overflowed(envelope, cell.ref, f"the mailbox is full: its capacity is {capacity}")
        # Publishing the loss of such an event would cause the next one, without end.
        if self._type.overflow == "fail" and not isinstance(envelope.message, DeadLetter | MailboxOverflowed):
            cell.system.event_stream.publish(MailboxOverflowed(ref=cell.ref, capacity=capacity))


def _is_always_accepted(entry: Entry) -> bool:
    return isinstance(entry, Envelope) and not entry.is_user_message
