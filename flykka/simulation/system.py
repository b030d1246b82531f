"""The actor system of a simulation: seeded, in virtual time, with actors that pause and messages that get lost."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from flykka.messages.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.cell import Cell
from flykka.runtime.dispatch.dispatcher import Runnable
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.envelope import Envelope, Told
from flykka.runtime.mailbox import Mailbox
from flykka.runtime.mailboxes.message_queue import message_of
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Recorder


_STEPS_AT_ONE_MOMENT = 50_000


class PausingDispatcher(SeededDispatcher):
    """A seeded dispatcher on which actors can be made to stand still: what they are told is late for them."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        super().__init__(seed, clock)
        self._paused: dict[str, list[Runnable]] = {}
        self.steps = 0
        """How many were drawn so far."""

    def pause(self, path: str, ms: int) -> None:
        """Give the actor at `path`, or the next one there, no turn for so long."""
        if path not in self._paused:
            self._paused[path] = []
            self.clock.schedule(self.clock.now_ms() + ms, lambda: self._resume(path))

    def run_until_idle(self, max_steps: int = _STEPS_AT_ONE_MOMENT) -> int:
        """As of a seeded dispatcher, of which no more is expected at one moment than a job of this size needs."""
        steps = super().run_until_idle(max_steps)
        self.steps += steps
        return steps

    def execute(self, runnable: Runnable) -> None:
        """Let this be drawn, unless it stands still."""
        if self._paused and isinstance(runnable, Cell) and (held := self._paused.get(runnable.ref.path)) is not None:
            held.append(runnable)
            return
        super().execute(runnable)

    def resume_all(self) -> None:
        """Let nobody stand still any more."""
        for path in list(self._paused):
            self._resume(path)

    def _resume(self, path: str) -> None:
        for runnable in self._paused.pop(path, ()):
            super().execute(runnable)


Arrival = tuple[type[Message], type[Actor]]
"""A message of a class, at an actor of a class."""


class Network:
    """What is to become of certain messages: so many of the next ones are lost, or come twice."""

    def __init__(self) -> None:
        self.lost: Counter[Arrival] = Counter()
        self.doubled: Counter[Arrival] = Counter()
        self.silenced: Counter[Arrival] = Counter()
        """Timers that are lost."""
        self.happened: Counter[str] = Counter()

    @property
    def is_perfect(self) -> bool:
        """Nothing is to become of any."""
        return not self.lost and not self.doubled and not self.silenced

    def copies(self, arrival: Arrival) -> int:
        """How often the next one arrives."""
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


class _Lane(deque[Told | Envelope]):
    """The queue of a mailbox, behind the network."""

    def __init__(self, network: Network, recipient: type[Actor]) -> None:
        super().__init__()
        self._network = network
        self._recipient = recipient

    def append(self, entry: Told | Envelope, /) -> None:
        """Queue an entry as often as it arrives."""
        network = self._network
        if not (network.lost or network.doubled or network.silenced):
            # As `is_perfect`, written out: every message comes by here.
            super().append(entry)
            return
        copies = network.copies((type(message_of(entry)), self._recipient))
        for _ in range(copies):
            super().append(entry)


class SimulatedSystem(ActorSystem):
    """Nothing runs but within `advance`."""

    def __init__(self, seed: int, name: str, recorder: Recorder) -> None:
        self.network = Network()
        self.manual_clock = ManualClock()
        self.schedule = PausingDispatcher(seed, self.manual_clock)
        super().__init__(name, seed=seed, dispatcher=self.schedule, serialize_messages=True, recorder=recorder)

    def mailbox(self, cell: Cell, props: Props, path: str) -> Mailbox:
        """What a new cell at `path` gets its messages by: the network is before each."""
        return Mailbox(cell, _Lane(self.network, props.actor_class))

    def advance(self, ms: int) -> None:
        """Let so much virtual time pass, with everything that happens meanwhile."""
        self.schedule.advance(ms)

    def jump(self, ms: int) -> None:
        """Let the clock go forward at once: whatever is due rings at the same moment, too late."""
        self.manual_clock.move_to(self.manual_clock.now_ms() + ms)
