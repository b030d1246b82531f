"""The network of a simulation: messages that get lost, come twice, or are held back while actors are cut off."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.mailbox.envelope import Envelope, Told
from flykka.runtime.mailbox.message_queue import MessageQueue, message_of

Arrival = tuple[type[Message], type[Actor]]
"""A message of a class, at an actor of a class."""


class Direction(StrEnum):
    """The direction in which messages do not get through."""

    IN = "in"
    OUT = "out"
    BOTH = "both"


@dataclass(slots=True, kw_only=True, eq=False)
class Cut:
    """A cut of the network: actors at and below `path` are cut off from all others but `exempt`.

    What the kernel itself has to say (an end, a stop) comes through, and so does what nobody has told: timers, outcomes
    of work. Of the rest only the classes `only` are stopped, where some are named.
    """

    path: str
    direction: Direction = Direction.BOTH
    only: frozenset[type[Message]] | None = None
    exempt: tuple[str, ...] = ()
    held: list[tuple[Callable[[Told | Envelope], None], Told | Envelope]] = field(default_factory=list)
    """Messages held back meanwhile, and how each is delivered."""

    def stops(self, sender: str, recipient: str, kind: type[Message]) -> bool:
        if self.only is not None and kind not in self.only:
            return False
        leaves, comes = self._is_within(sender), self._is_within(recipient)
        if leaves == comes or (recipient if leaves else sender) in self.exempt:
            return False
        return self.direction is Direction.BOTH or (self.direction is Direction.OUT) == leaves

    def _is_within(self, path: str) -> bool:
        return path == self.path or path.startswith(f"{self.path}/")


class Network:
    """A network with faults: messages of some kinds are lost or come twice, and some actors are cut off."""

    def __init__(self) -> None:
        self.lost: Counter[Arrival] = Counter()
        self.doubled: Counter[Arrival] = Counter()
        self.silenced: Counter[Arrival] = Counter()
        """Timers that are lost."""
        self.cuts: list[Cut] = []
        self.happened: Counter[str] = Counter()

    @property
    def is_perfect(self) -> bool:
        return not self.lost and not self.doubled and not self.silenced and not self.cuts

    def heal(self, cut: Cut) -> None:
        """Nobody is cut off by it any more; what was told meanwhile arrives, late and in order."""
        self.cuts.remove(cut)
        for deliver, entry in cut.held:
            deliver(entry)
        cut.held.clear()

    def copies(self, arrival: Arrival) -> int:
        """The number of times that the next message arrives."""
        for plan, copies, what in (
            (self.lost, 0, "loss"),
            (self.doubled, 2, "duplicate"),
            (self.silenced, 0, "timer"),
        ):
            if plan[arrival] > 0:
                plan[arrival] -= 1
                if not plan[arrival]:
                    del plan[arrival]
                self.happened[what] += 1
                return copies
        return 1

    def holds_back(self, entry: Told | Envelope, recipient: str, deliver: Callable[[Told | Envelope], None]) -> bool:
        """True if the receiver or sender of this entry is cut off; it is kept until that is over."""
        sender = _sender_of(entry)
        if sender is None:
            return False
        kind = type(message_of(entry))
        for cut in self.cuts:
            if cut.stops(sender.path, recipient, kind):
                cut.held.append((deliver, entry))
                return True
        return False


class Arrivals:
    """The queue of a mailbox, behind the network."""

    __slots__ = ("_network", "_path", "_queue", "_recipient", "deliver", "extendleft", "popleft")

    def __init__(self, network: Network, recipient: type[Actor], path: str, queue: MessageQueue | None) -> None:
        self._network = network
        self._recipient = recipient
        self._path = path
        self._queue: MessageQueue = deque() if queue is None else queue
        self.popleft: Callable[[], Told | Envelope] = self._queue.popleft
        self.extendleft: Callable[[Iterable[Told | Envelope]], None] = self._queue.extendleft
        self.deliver: Callable[[Told | Envelope], None] = self._queue.append
        """Enqueues an entry that was held back."""

    def append(self, entry: Told | Envelope, /) -> None:
        """Queue an entry as often as it arrives, and when it does."""
        network = self._network
        if not (network.lost or network.doubled or network.silenced or network.cuts):
            # As `is_perfect`, written out: every message comes by here.
            self._queue.append(entry)
            return
        if network.cuts and network.holds_back(entry, self._path, self.deliver):
            return
        for _ in range(network.copies((type(message_of(entry)), self._recipient))):
            self._queue.append(entry)

    def __len__(self) -> int:
        return len(self._queue)


def _sender_of(entry: Told | Envelope) -> Ref | None:
    if isinstance(entry, tuple):
        return entry[1]
    return entry.sender if isinstance(entry, Envelope) else None
