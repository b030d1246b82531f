"""Dispatchers: the threads that run the turns of cells, and blocking work."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from flykka.runtime.dispatch.pipe import Executor, Pipe
    from flykka.runtime.dispatch.seeded import SeededDispatcher
    from flykka.runtime.props import DispatcherName
    from flykka.runtime.time.clock import Clock

logger = logging.getLogger("flykka.runtime")


class Runnable(Protocol):
    """Cell with work, or a piece of blocking work."""

    def run(self) -> None:
        """Run it."""


class Dispatcher(ABC):
    """Runs cells. Each is handed over at most once at a time, by the thread that holds its mailbox's claim."""

    throughput = 64
    """Number of turns that a cell may take before another one gets the thread."""

    has_threads = False
    """Tells whether an actor may have a thread for itself."""

    clock: Clock | None = None
    """Set where the dispatcher moves a clock of its own."""

    driver: SeededDispatcher | None = None
    """Set where turns are taken on the thread that waits for a future."""

    @property
    def loop(self) -> AbstractEventLoop:
        """The event loop that the turns run on, where they run on one."""
        raise TypeError(f"{type(self).__name__} runs no event loop")

    @abstractmethod
    def execute(self, runnable: Runnable) -> None:
        """Run this soon; callable from any thread."""

    def run_blocking(self, work: Runnable) -> None:
        """Run this where it may block for long: by the dispatcher of the system."""
        raise TypeError(f"{type(self).__name__} has no thread for blocking work")

    def run_blocking_on(self, executor: Executor | None, work: Pipe[Any]) -> None:
        """Run this on the given executor, or by this dispatcher."""
        (executor or self).run_blocking(work)

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Return the dispatcher of a new cell whose Props ask for `name`: called on that of the system."""
        raise TypeError(f"{type(self).__name__} is no dispatcher of a system")

    def shutdown(self) -> None:  # noqa: B027 - not all have threads.
        """Release the threads of a system that has ended. Does not wait for them."""


def run_contained(runnable: Runnable) -> None:
    """Run on a worker thread, which must outlive any failure of the run."""
    try:
        runnable.run()
    except BaseException:
        # Actors' failures are handled in their turns: this one is a fault of the kernel.
        logger.critical("the kernel failed while it ran %s", runnable, exc_info=True)
