"""One event loop on one thread, for the actors whose `handle_message` is a coroutine function."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import Context
from typing import TYPE_CHECKING

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable, run_contained
from flykka.runtime.dispatch.task_scope import make_task

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName

logger = logging.getLogger("flykka.runtime")


class LoopDispatcher(Dispatcher):
    """A daemon thread, begun with the first actor that needs it; it closes its loop when the system has ended."""

    def __init__(self, throughput: int = 64) -> None:
        self.throughput = throughput
        self._beginning = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs."""
        return self._loop or self._begin()

    def execute(self, runnable: Runnable) -> None:
        """Run the cell on the loop."""
        try:
            # The context variables of whoever told the actor something are not the actor's.
            self.loop.call_soon_threadsafe(run_contained, runnable, context=Context())
        except RuntimeError:
            # The system has ended meanwhile, and this cell with it: it has no turn to take.
            if not self._closed:
                raise

    def run_blocking(self, work: Runnable) -> None:
        """Refused: blocking work goes to the system's dispatcher."""
        raise TypeError("an event loop has no thread for blocking work")

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Refused: cells get their dispatcher from the system's."""
        raise TypeError("cells get their dispatcher from the system's")

    def release(self) -> None:
        """Nothing to give back for one cell."""

    def shutdown(self) -> None:
        """Cancel what the loop still runs, and end the thread."""
        with self._beginning:
            self._closed = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _begin(self) -> asyncio.AbstractEventLoop:
        with self._beginning:
            if self._loop is None:
                if self._closed:
                    raise RuntimeError("the system of this event loop has ended")
                loop = asyncio.new_event_loop()
                loop.set_task_factory(make_task)
                try:
                    threading.Thread(target=self._work, args=(loop,), name="flykka-loop", daemon=True).start()
                except RuntimeError:
                    loop.close()
                    raise
                self._loop = loop
            return self._loop

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        running = True
        while running:
            try:
                loop.run_forever()
                running = not self._closed
            except BaseException:
                # A task of an actor raised KeyboardInterrupt or the like, which asyncio hands on to its thread, too.
                # Whoever awaits the task fails with it; the thread runs other actors, and outlives it.
                logger.exception("a task broke through its event loop")
        try:
            loop.run_until_complete(_wind_up(loop))
        except BaseException:
            logger.exception("an event loop could not be wound up")
        loop.close()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    left = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task(loop)]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
