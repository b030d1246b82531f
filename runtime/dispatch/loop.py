"""An event loop on a thread, for the actors whose `handle_message` is a coroutine function."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import Context
from typing import TYPE_CHECKING

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable, run_contained
from flykka.runtime.dispatch.task_scope import make_task

if TYPE_CHECKING:
    pass

logger = logging.getLogger("flykka.runtime")


class LoopDispatcher(Dispatcher):
    """Event loop on a daemon thread, started with the first actor that needs it, closed with the system."""

    def __init__(self, throughput: int = 64) -> None:
        self.throughput = throughput
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        return self._loop or self._start_loop()

    def execute(self, runnable: Runnable) -> None:
        """Run the cell on the loop."""
        try:
            # Context variables of the sender are not the actor's.
            self.loop.call_soon_threadsafe(run_contained, runnable, context=Context())
        except RuntimeError:
            # The system has ended meanwhile, and this cell with it.
            if not self._closed:
                raise

    def shutdown(self) -> None:
        """Cancel the tasks of the loop, and end the thread."""
        with self._lock:
            self._closed = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
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
                # A task of an actor raised KeyboardInterrupt or the like, which asyncio raises on its thread too.
                # The awaiting task fails with it; the thread runs other actors, and outlives it.
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
