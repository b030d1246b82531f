"""What a dispatcher is to cells and to the system."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from flykka.runtime.futures.future import Driver
    from flykka.runtime.futures.pipe import Executor, Pipe
    from flykka.runtime.props import DispatcherName
    from flykka.runtime.time.clock import Clock

logger = logging.getLogger("flykka.runtime")


class Runnable(Protocol):
    """A cell with work, or a piece of blocking work."""

    def run(self) -> None:
        """Do it."""


class Dispatcher(ABC):
    """Runs cells. A cell is handed over at most once at a time, by whoever holds its mailbox's claim."""

    throughput = 64
    """How many turns a cell may take before another one gets the thread."""

    clock: Clock | None = None
    """Set where the dispatcher moves a clock of its own."""

    driver: Driver | None = None
    """Set where turns are taken on the thread that waits for a future."""

    @property
    def loop(self) -> AbstractEventLoop:
        """The event loop that the turns run on, where they run on one."""
        raise TypeError(f"{type(self).__name__} runs no event loop")

    @abstractmethod
    def execute(self, runnable: Runnable) -> None:
        """Run this soon; callable from any thread."""

    @abstractmethod
    def run_blocking(self, work: Runnable) -> None:
        """Run this where it may block for long."""

    def run_blocking_on(self, executor: Executor | None, work: Pipe[Any]) -> None:
        """Run this on the threads that somebody else has for it, if any."""
        (executor or self).run_blocking(work)

    @abstractmethod
    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """The dispatcher of a new cell whose Props ask for `name`."""

    @abstractmethod
    def shutdown(self) -> None:
        """The system has ended; give the threads back. Does not wait for them."""

    @abstractmethod
    def release(self) -> None:
        """A cell of this dispatcher has ended."""


def run_contained(runnable: Runnable) -> None:
    """Run on a worker thread, which must outlive whatever happens in there."""
    try:
        runnable.run()
    except BaseException:
        # Actors' failures are handled in their turns: this one is the kernel's own.
        logger.critical("the kernel failed while it ran %s", runnable, exc_info=True)


class PinnedDispatcher(Dispatcher):
    """Begun with the actor's first turn, ended behind its last one."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[Runnable | None] = SimpleQueue()
        self._started = False

    def execute(self, runnable: Runnable) -> None:
        """Run the cell on its thread."""
        # Only the holder of the cell's claim comes here, so that there is no race for the first time.
        self._ready.put(runnable)
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name=f"flykka-pinned-{runnable}", daemon=True).start()

    def run_blocking(self, work: Runnable) -> None:
        """Refused: blocking work goes to the system's dispatcher."""
        raise TypeError("a pinned thread belongs to one actor")

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Refused: cells get their dispatcher from the system's."""
        raise TypeError("a pinned thread belongs to one actor")

    def release(self) -> None:
        """End the thread when it is free."""
        self._ready.put(None)

    def shutdown(self) -> None:
        """End the thread when it is free."""
        self.release()

    def _work(self) -> None:
        while (runnable := self._ready.get()) is not None:
            run_contained(runnable)
