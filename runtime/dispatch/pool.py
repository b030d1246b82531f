"""The shared pool: few threads for all actors; and the pool for what may block."""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, assert_never

from flykka.runtime.dispatch.dispatcher import Dispatcher, PinnedDispatcher, Runnable, run_contained
from flykka.runtime.dispatch.loop import LoopDispatcher

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName


class SharedPool(Dispatcher):
    """Daemon threads that sleep while there is nothing to run. Fair: a busy actor queues up anew behind the others."""

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
        """Run this on the next free thread."""
        self._ready.put(runnable)

    def run_blocking(self, work: Runnable) -> None:
        """Run this on the pool for blocking work."""
        self._blocking.submit(work)

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """This pool, a thread for the cell alone, or the event loop that all its cells share."""
        match name:
            case "default":
                return self
            case "pinned":
                return PinnedDispatcher()
            case "loop":
                return self._loop
            case _:
                assert_never(name)

    def release(self) -> None:
        """Nothing to give back for one cell."""

    def shutdown(self) -> None:
        """Let every thread end when it is free."""
        for _ in self._threads:
            self._ready.put(None)
        self._blocking.shutdown()
        self._loop.shutdown()


class BlockingPool:
    """Grows by a daemon thread whenever work finds none idle, up to a limit; behind that, work waits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ready: SimpleQueue[Runnable | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._closed = False

    def submit(self, work: Runnable) -> None:
        """Run this; once the pool is shut down, do not."""
        with self._lock:
            if self._closed:
                return
            if not self._idle.acquire(blocking=False) and self._threads < self._limit:
                # Where no thread can begin, this raises, and the work is not queued either.
                name = f"flykka-blocking-{self._threads + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._threads += 1
            self._ready.put(work)

    def shutdown(self) -> None:
        """Let every thread end when it is free."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._ready.put(None)

    def _work(self) -> None:
        while (work := self._ready.get()) is not None:
            run_contained(work)
            self._idle.release()


class ReadyQueue:
    """First come, first served; and of the threads that wait, the one that has waited shortest is woken.

    A question and its reply then go to and fro between two threads whose caches are warm: with the threads in turns, as
    a `SimpleQueue` wakes them, an ask takes a fifth longer. No lock is held around the two lists: their `append` and
    `pop` are atomic, and each side looks at the other's list behind writing its own.
    """

    __slots__ = ("_idle", "_ready")

    def __init__(self) -> None:
        self._ready: deque[Runnable | None] = deque()
        self._idle: list[threading.Lock] = []

    def put(self, runnable: Runnable | None) -> None:
        """Queue something, from any thread."""
        self._ready.append(runnable)
        if self._idle:
            try:
                latch = self._idle.pop()
            except IndexError:
                return  # It was woken by another one in this moment.
            latch.release()

    def get(self, latch: threading.Lock) -> Runnable | None:
        """The next, waited for; `latch` is the thread's own, and held."""
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                self._idle.append(latch)
            if not (self._ready and self._rises(latch)):
                latch.acquire()

    def _rises(self, latch: threading.Lock) -> bool:
        """Wait no longer; False where somebody is about to wake the thread already."""
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
