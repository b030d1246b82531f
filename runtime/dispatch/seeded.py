"""Runs all turns on the calling thread, in an order drawn from a seed: for tests, simulation and replay."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable
from flykka.runtime.dispatch.virtual_loop import VirtualLoop, VirtualLoopDispatcher
from flykka.runtime.time.clock import Clock
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName


class MovableClock(Clock, Protocol):
    def next_due(self) -> int | None: ...

    def move_to(self, now_ms: int) -> None: ...


class SeededDispatcher(Dispatcher):
    """Runs all turns on the calling thread. Each ready cell is equally likely, and the same seed gives the same order.

    Blocking work is drawn like a cell and runs inline, after up to `blocking_ms` of virtual time. Virtual time does not
    advance while anything can run.
    """

    throughput = 1

    def __init__(self, seed: int, clock: MovableClock, blocking_ms: int = 0) -> None:
        self.clock: MovableClock = clock
        self._blocking_ms = blocking_ms
        self.driver = self
        self._random = random.Random(seed)
        self._ready: list[Runnable] = []
        self._parked: list[Callable[[], object]] = []
        self._loop = VirtualLoop(self)  # type: ignore[abstract]  # Other methods are added as refusals.

    def execute(self, runnable: Runnable) -> None:
        self._ready.append(runnable)
        if self._parked:
            parked, self._parked = self._parked, []
            for call in parked:
                call()

    def run_blocking(self, work: Runnable) -> None:
        """Add blocking work to the ready items, at once or after a random delay."""
        takes_ms = self._random.randint(0, self._blocking_ms) if self._blocking_ms else 0
        if takes_ms == 0:
            self.execute(work)
        else:
            self.clock.schedule(self.clock.now_ms() + takes_ms, lambda: self.execute(work))

    @property
    def loop(self) -> VirtualLoop:
        return self._loop

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Return this dispatcher for every cell except cells with event loops, because nothing blocks here."""
        return VirtualLoopDispatcher(self) if name == "loop" else self

    def shutdown(self) -> None:
        """Cancel the tasks that killed actors have left."""
        self._loop.cancel_tasks()

    def step(self) -> bool:
        """Draw one ready item and run it. Returns False if there is none."""
        ready = self._ready
        if not ready:
            return False
        index = self._draw(ready)
        ready[index], ready[-1] = ready[-1], ready[index]
        runnable = ready.pop()
        with outside_turn():
            runnable.run()
        return True

    def _draw(self, ready: Sequence[Runnable]) -> int:
        return self._random.randrange(len(ready))

    def run_until_idle(self, max_steps: int = 1_000_000) -> int:
        """Run until no item is ready at the current time. Returns the number of steps.

        Raises:
            RuntimeError: actors still keep each other busy after `max_steps`.
        """
        for steps in range(max_steps):
            if not self.step():
                return steps
        raise RuntimeError(f"still busy after {max_steps} steps at one virtual time: some actors keep sending messages")

    def advance(self, ms: int) -> None:
        """Advance virtual time by `ms`: run until idle, move to the next alarm, and repeat."""
        target = self.clock.now_ms() + ms
        self.run_until_idle()
        while (due := self.clock.next_due()) is not None and due <= target:
            self.clock.move_to(due)
            self.run_until_idle()
        self.clock.move_to(target)
        self.run_until_idle()

    def drive(self, is_done: Callable[[], bool], timeout: float | None) -> None:
        """Run turns, advancing time when idle, until `is_done` returns True or `timeout` virtual seconds pass."""
        deadline = None if timeout is None else self.clock.now_ms() + int(timeout * 1000)
        while not is_done():
            if not self.step() and not self._pass_time(deadline):
                return

    def drive_within(self, is_done: Callable[[], bool]) -> Generator[Any, None, None]:
        """Drive like `drive`, but for a task of a real event loop, whose other tasks run in between."""
        while not is_done():
            if self.step():
                continue
            yield  # Before time advances, the other tasks run.
            if not is_done() and not self.step() and not self._pass_time(None):
                return

    def when_ready(self, call: Callable[[], object]) -> None:
        """Call `call` once, as soon as an item is ready."""
        self._parked.append(call)

    def forget(self, call: Callable[[], object]) -> None:
        """Cancel a call of `when_ready`."""
        if call in self._parked:
            self._parked.remove(call)

    def _pass_time(self, deadline: int | None) -> bool:
        due = self.clock.next_due()
        if due is None or (deadline is not None and due > deadline):
            if deadline is not None:
                self.clock.move_to(deadline)
            return False
        self.clock.move_to(due)
        return True
