"""The actor system of a simulation: seeded, in virtual time, with actors that pause and messages that get lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.cell.cell import Cell
from flykka.runtime.dispatch.dispatcher import Runnable
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.mailbox.mailbox import Mailbox
from flykka.runtime.system import ActorSystem
from flykka.runtime.time.manual_clock import ManualClock
from flykka.simulation.network import Arrivals, Network

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
        """The number of draws so far."""

    def pause(self, path: str, ms: int) -> None:
        """Give the actor at `path`, or the next one there, no turn for so long."""
        if path not in self._paused:
            self._paused[path] = []
            self.clock.schedule(self.clock.now_ms() + ms, lambda: self._resume(path))

    def is_paused(self, path: str) -> bool:
        """True while the actor at `path` gets no turn."""
        return path in self._paused

    def run_until_idle(self, max_steps: int = _STEPS_AT_ONE_MOMENT) -> int:
        """As of a seeded dispatcher, of which no more is expected at one moment than a job of this size needs."""
        steps = super().run_until_idle(max_steps)
        self.steps += steps
        return steps

    def execute(self, runnable: Runnable) -> None:
        if self._paused and isinstance(runnable, Cell) and (held := self._paused.get(runnable.ref.path)) is not None:
            held.append(runnable)
            return
        super().execute(runnable)

    def resume_all(self) -> None:
        for path in list(self._paused):
            self._resume(path)

    def _resume(self, path: str) -> None:
        for runnable in self._paused.pop(path, ()):
            super().execute(runnable)


class SimulatedSystem(ActorSystem):
    """Nothing runs but within `advance`."""

    def __init__(self, seed: int, name: str, recorder: Recorder) -> None:
        self.network = Network()
        self.manual_clock = ManualClock()
        self.schedule = PausingDispatcher(seed, self.manual_clock)
        super().__init__(name, seed=seed, dispatcher=self.schedule, serialize_messages=True, recorder=recorder)

    def mailbox(self, cell: Cell, props: Props, path: str) -> Mailbox:
        """The mailbox of a new cell at `path`, behind the network."""
        queue = None if props.mailbox is None else props.mailbox.create(cell)
        arrivals = Arrivals(self.network, props.actor_class, path, queue)
        mailbox = Mailbox(cell, arrivals)
        arrivals.deliver = mailbox.put
        return mailbox

    def advance(self, ms: int) -> None:
        """Let so much virtual time pass, with everything that happens meanwhile."""
        self.schedule.advance(ms)

    def jump(self, ms: int) -> None:
        """Let the clock go forward at once: whatever is due rings at the same moment, too late."""
        self.manual_clock.move_to(self.manual_clock.now_ms() + ms)
