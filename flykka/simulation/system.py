"""The actor system of a simulation: seeded, in virtual time, with paused actors and lost messages."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.cell.cell import Cell
from flykka.runtime.dispatch.dispatcher import Runnable
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.mailbox.envelope import Envelope, TellEntry
from flykka.runtime.mailbox.mailbox import Mailbox
from flykka.runtime.mailbox.message_queue import MessageQueue, message_of
from flykka.runtime.system import ActorSystem
from flykka.runtime.time.manual_clock import ManualClock

if TYPE_CHECKING:
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Recorder


Arrival = tuple[type[Message], type[Actor]]


class Direction(StrEnum):
    IN = "in"
    OUT = "out"
    BOTH = "both"


@dataclass(slots=True, kw_only=True, eq=False)
class Cut:
    """A network partition: actors at and below `path` are separated from all others except `exempt`.

    Messages of the kernel (such as stop messages) pass, and so do messages without a sender: timers and results of
    work. If `only` is set, only messages of these classes are blocked.
    """

    path: str
    direction: Direction = Direction.BOTH
    only: frozenset[type[Message]] | None = None
    exempt: tuple[str, ...] = ()
    held: list[tuple[Callable[[TellEntry | Envelope], None], TellEntry | Envelope]] = field(default_factory=list)

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
    """A network with faults: messages of some classes are lost or duplicated, and some actors are partitioned."""

    def __init__(self) -> None:
        self.lost: Counter[Arrival] = Counter()
        self.doubled: Counter[Arrival] = Counter()
        self.silenced: Counter[Arrival] = Counter()
        """The number of timers of each class that will be lost."""
        self.cuts: list[Cut] = []
        self.happened: Counter[str] = Counter()

    @property
    def is_perfect(self) -> bool:
        return not self.lost and not self.doubled and not self.silenced and not self.cuts

    def heal(self, cut: Cut) -> None:
        """End a partition. The messages that were held back arrive late, but in order."""
        self.cuts.remove(cut)
        for deliver, entry in cut.held:
            deliver(entry)
        cut.held.clear()

    def copies(self, arrival: Arrival) -> int:
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

    def holds_back(
        self, entry: TellEntry | Envelope, recipient: str, deliver: Callable[[TellEntry | Envelope], None]
    ) -> bool:
        """Return whether the recipient or sender is partitioned. If so, the entry is held until the partition ends."""
        sender = Envelope.wrap(entry).sender
        if sender is None:
            return False
        kind = type(message_of(entry))
        for cut in self.cuts:
            if cut.stops(sender.path, recipient, kind):
                cut.held.append((deliver, entry))
                return True
        return False


class Arrivals:
    __slots__ = ("_network", "_path", "_queue", "_recipient", "deliver", "extendleft", "popleft")

    def __init__(self, network: Network, recipient: type[Actor], path: str, queue: MessageQueue | None) -> None:
        self._network = network
        self._recipient = recipient
        self._path = path
        self._queue: MessageQueue = deque() if queue is None else queue
        self.popleft: Callable[[], TellEntry | Envelope] = self._queue.popleft
        self.extendleft: Callable[[Iterable[TellEntry | Envelope]], None] = self._queue.extendleft
        self.deliver: Callable[[TellEntry | Envelope], None] = self._queue.append

    def append(self, entry: TellEntry | Envelope, /) -> None:
        network = self._network
        if not (network.lost or network.doubled or network.silenced or network.cuts):
            # `is_perfect` is inlined, because every message passes here.
            self._queue.append(entry)
            return
        if network.cuts and network.holds_back(entry, self._path, self.deliver):
            return
        for _ in range(network.copies((type(message_of(entry)), self._recipient))):
            self._queue.append(entry)

    def __len__(self) -> int:
        return len(self._queue)


_STEPS_AT_ONE_MOMENT = 50_000


class PausingDispatcher(SeededDispatcher):
    """A seeded dispatcher that can pause actors. Their messages are then delayed."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        super().__init__(seed, clock)
        self._paused: dict[str, list[Runnable]] = {}
        self.steps = 0

    def pause(self, path: str, ms: int) -> None:
        """Pause the actor at `path`, or the next actor at this path, for `ms` milliseconds."""
        if path not in self._paused:
            self._paused[path] = []
            self.clock.schedule(self.clock.now_ms() + ms, lambda: self._resume(path))

    def is_paused(self, path: str) -> bool:
        return path in self._paused

    def run_until_idle(self, max_steps: int = _STEPS_AT_ONE_MOMENT) -> int:
        """Run like a seeded dispatcher, with a limit of steps that suffices for a job of this size at one instant."""
        steps = super().run_until_idle(max_steps)
        self.steps += steps
        return steps

    def execute(self, runnable: Runnable) -> None:
        if self._paused and isinstance(runnable, Cell) and (delayed := self._paused.get(runnable.ref.path)) is not None:
            delayed.append(runnable)
            return
        super().execute(runnable)

    def resume_all(self) -> None:
        for path in list(self._paused):
            self._resume(path)

    def _resume(self, path: str) -> None:
        for runnable in self._paused.pop(path, ()):
            super().execute(runnable)


class SimulatedSystem(ActorSystem):
    """An actor system that runs only within `advance`."""

    def __init__(self, seed: int, name: str, recorder: Recorder) -> None:
        self.network = Network()
        self.manual_clock = ManualClock()
        self.schedule = PausingDispatcher(seed, self.manual_clock)
        super().__init__(name, seed=seed, dispatcher=self.schedule, serialize_messages=True, recorder=recorder)

    def mailbox(self, cell: Cell, props: Props, path: str) -> Mailbox:
        queue = None if props.mailbox is None else props.mailbox.create(cell)
        arrivals = Arrivals(self.network, props.actor_class, path, queue)
        mailbox = Mailbox(cell, arrivals)
        arrivals.deliver = mailbox.put
        return mailbox

    def advance(self, ms: int) -> None:
        self.schedule.advance(ms)

    def jump(self, ms: int) -> None:
        """Move the clock forward at once, so that all due timers fire at the same instant, too late."""
        self.manual_clock.move_to(self.manual_clock.now_ms() + ms)
