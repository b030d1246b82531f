"""What a dispatcher is to cells and to the system."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from flykka.runtime.clock import Clock
    from flykka.runtime.future import Driver
    from flykka.runtime.pipe import Executor, Pipe
    from flykka.runtime.props import DispatcherName

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
