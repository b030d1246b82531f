"""All turns on the calling thread, in an order drawn from a seed: for tests, simulation and replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from flykka.runtime.clock import Clock
from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName


class MovableClock(Clock, Protocol):
    """A clock whose time the dispatcher moves."""

    def next_due(self) -> int | None:
        """The moment of the next alarm."""

    def move_to(self, now_ms: int) -> None:
        """Set the time and ring what is due by then."""


class SeededDispatcher(Dispatcher):
    """Whoever could run next is equally likely to; the same seed draws the same order.

    Blocking work is drawn among the cells and runs inline. Time stands still while anything can run.
    """

    throughput = 1

    def __init__(self, seed: int, clock: MovableClock) -> None:
        self.clock: MovableClock = clock
        self.driver = self
        self._random = random.Random(seed)
        self._ready: list[Runnable] = []

    def execute(self, runnable: Runnable) -> None:
        """Let this be drawn."""
        self._ready.append(runnable)

    def run_blocking(self, work: Runnable) -> None:
        """Let this be drawn."""
        self._ready.append(work)

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """This one, for every cell: `pinned` is a promise about blocking, which nothing here does."""
        return self

    def release(self) -> None:
        """Nothing to give back for one cell."""

    def shutdown(self) -> None:
        """Nothing to give back."""

    def step(self) -> bool:
        """Draw and run one; False where there is none."""
        ready = self._ready
        if not ready:
            return False
        index = self._random.randrange(len(ready))
        ready[index], ready[-1] = ready[-1], ready[index]
        runnable = ready.pop()
        with outside_turn():
            runnable.run()
        return True

    def run_until_idle(self, max_steps: int = 1_000_000) -> int:
        """Run until nothing is left to run at this moment; how many steps it took.

        Raises:
            RuntimeError: actors still keep each other busy after `max_steps`.
        """
        for steps in range(max_steps):
            if not self.step():
                return steps
        raise RuntimeError(f"still busy after {max_steps} steps: actors that never come to rest at one moment")

    def advance(self, ms: int) -> None:
        """Let virtual time pass: run until idle, move to the next alarm, and so on until `ms` are over."""
        target = self.clock.now_ms() + ms
        self.run_until_idle()
        while (due := self.clock.next_due()) is not None and due <= target:
            self.clock.move_to(due)
            self.run_until_idle()
        self.clock.move_to(target)
        self.run_until_idle()

    def drive(self, done: Callable[[], bool], timeout: float | None) -> None:
        """Take turns, and let time pass when nothing runs, until `done` or for `timeout` seconds of virtual time."""
        deadline = None if timeout is None else self.clock.now_ms() + int(timeout * 1000)
        while not done():
            if self.step():
                continue
            due = self.clock.next_due()
            if due is None or (deadline is not None and due > deadline):
                if deadline is not None:
                    self.clock.move_to(deadline)
                return
            self.clock.move_to(due)
