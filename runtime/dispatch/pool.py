"""The threads of a system: a few for all actors, others for blocking work, and one with an event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from contextvars import Context
from queue import SimpleQueue
from typing import TYPE_CHECKING

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable, run_contained
from flykka.runtime.dispatch.task_scope import make_task

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName

logger = logging.getLogger("flykka.runtime")


class SharedPool(Dispatcher):
    """Daemon threads that sleep while there is no work. Scheduling is fair: a busy actor is queued again after the
    others.
    """

    has_threads = True

    def __init__(self, threads: int | None = None, *, throughput: int = 64, blocking_threads: int = 32) -> None:
        self.throughput = throughput
        self._ready = ReadyQueue()
        self._blocking = BlockingPool(blocking_threads)
        self._loop = LoopDispatcher()
        self._threads = [
            threading.Thread(target=_work, args=(self._ready,), name=f"flykka-dispatcher-{number}", daemon=True)
            for number in range(threads or max(2, os.cpu_count() or 1))
        ]
        for thread in self._threads:
            thread.start()

    def execute(self, runnable: Runnable) -> None:
        self._ready.put(runnable)

    def run_blocking(self, work: Runnable) -> None:
        self._blocking.submit(work)

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Return the event loop of the system, or this pool. A pinned cell has its own thread."""
        return self._loop if name == "loop" else self

    def shutdown(self) -> None:
        """End every thread as soon as it is free."""
        for _ in self._threads:
            self._ready.put(None)
        self._blocking.shutdown()
        self._loop.shutdown()


class BlockingPool:
    """Daemon threads for blocking work: a new thread whenever none is idle, up to a limit, beyond which work waits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ready: SimpleQueue[Runnable | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._closed = False

    def submit(self, work: Runnable) -> None:
        with self._lock:
            if self._closed:
                return
            if not self._idle.acquire(blocking=False) and self._threads < self._limit:
                # If no thread can be started, this raises, and the work is not queued.
                name = f"flykka-blocking-{self._threads + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._threads += 1
            self._ready.put(work)

    def shutdown(self) -> None:
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._ready.put(None)

    def _work(self) -> None:
        while (work := self._ready.get()) is not None:
            run_contained(work)
            self._idle.release()


class ReadyQueue:
    """A FIFO queue that wakes the thread which has waited for the shortest time.

    An ask and its reply then alternate between two threads whose caches are warm. If the threads took turns, as with
    `SimpleQueue`, an ask would take a fifth longer. No lock protects the two lists: their `append` and `pop` are
    atomic, and each side checks the other's list after writing its own.
    """

    __slots__ = ("_idle", "_ready")

    def __init__(self) -> None:
        self._ready: deque[Runnable | None] = deque()
        self._idle: list[threading.Lock] = []

    def put(self, runnable: Runnable | None) -> None:
        self._ready.append(runnable)
        if self._idle:
            try:
                latch = self._idle.pop()
            except IndexError:
                return  # Another thread has already woken this thread.
            latch.release()

    def get(self, latch: threading.Lock) -> Runnable | None:
        """Wait for the next item. `latch` is the thread's own lock, already acquired."""
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                self._idle.append(latch)
            if not (self._ready and self._stays_awake(latch)):
                latch.acquire()

    def _stays_awake(self, latch: threading.Lock) -> bool:
        try:
            self._idle.remove(latch)
        except ValueError:
            return False
        return True


def _work(ready: ReadyQueue) -> None:
    latch = threading.Lock()
    latch.acquire()
    while (runnable := ready.get(latch)) is not None:
        run_contained(runnable)


class LoopDispatcher(Dispatcher):
    """An event loop on a daemon thread, for the actors whose `handle_message` is a coroutine function.

    The thread starts with the first actor that needs it. The loop is closed with the system.
    """

    def __init__(self, throughput: int = 64) -> None:
        self.throughput = throughput
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop or self._start_loop()

    def execute(self, runnable: Runnable) -> None:
        try:
            # Context variables of the sender must not become the actor's.
            self.loop.call_soon_threadsafe(run_contained, runnable, context=Context())
        except RuntimeError:
            # The system, and this cell with it, may have ended meanwhile.
            if not self._closed:
                raise

    def shutdown(self) -> None:
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
                # A task of an actor raised KeyboardInterrupt or a similar exception, which asyncio also raises on its
                # thread. The awaiting task fails with it; the thread runs other actors, and must survive.
                logger.exception("a task of the event loop raised")
        try:
            loop.run_until_complete(_close_loop(loop))
        except BaseException:
            logger.exception("an event loop could not be closed")
        loop.close()


async def _close_loop(loop: asyncio.AbstractEventLoop) -> None:
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task(loop)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
