"""The mailbox that delivers the most urgent message first."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING

from flykka.runtime.mailbox.envelope import Envelope, FaultEnvelope
from flykka.runtime.mailbox.message_queue import Entry, MessageQueue, message_of

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

Priority = Callable[["Message"], int]

_Place = tuple[float, int, Entry]
_AHEAD_OF_ALL = float("-inf")


@dataclass(frozen=True, slots=True)
class StablePriorityMailbox:
    """Lowest number first, equals in their order (Akka's UnboundedStablePriorityMailbox).

    `priority` is called once for each message, on the thread of the sender: it must be a function of the message alone.
    It sees the kernel's own messages too, such as `Terminated`, which may so overtake messages of the dead actor.
    Where it raises or returns no int, the actor of this mailbox fails: its parent decides, and an ask fails too.
    Unstashed messages go ahead of their equals.
    """

    priority: Priority

    def __post_init__(self) -> None:
        if not callable(self.priority):
            raise TypeError(f"the priority of a mailbox is a function of the message, not {self.priority!r}")

    def create(self, owner: Cell) -> MessageQueue:
        """Make an empty heap."""
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
        urgency, entry = self._judged(entry)
        with self._lock:
            self._last += 1
            heapq.heappush(self._heap, (urgency, self._last, entry))

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        places = [self._judged(entry) for entry in entries]
        with self._lock:
            for urgency, entry in places:
                self._first -= 1
                heapq.heappush(self._heap, (urgency, self._first, entry))

    def popleft(self) -> Entry:
        with self._lock:
            return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)

    def _judged(self, entry: Entry) -> tuple[float, Entry]:
        try:
            return index(self._priority(message_of(entry))), entry
        except BaseException as error:  # noqa: BLE001 - becomes the failure of the actor that asked for this function.
            return _AHEAD_OF_ALL, _Unjudged(Envelope.wrap(entry), error)


class _Unjudged(FaultEnvelope):
    """Envelope of a message whose priority could not be computed."""

    __slots__ = ()

    told = True

    def __init__(self, envelope: Envelope, error: BaseException) -> None:
        super().__init__(envelope.message, error, envelope.cause)
        self.sender = envelope.sender
        self.reply_to = envelope.reply_to
