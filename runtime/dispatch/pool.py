"""The shared pool: few threads for all actors; and the pool for blocking work."""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable, run_contained
from flykka.runtime.dispatch.loop import LoopDispatcher

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName


class SharedPool(Dispatcher):
    """Daemon threads that sleep while there is nothing to run. Fair: a busy actor queues again behind the others."""

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
        """Run this on the next free thread."""
        self._ready.put(runnable)

    def run_blocking(self, work: Runnable) -> None:
        """Run this on the pool for blocking work."""
        self._blocking.submit(work)

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Return the event loop of the system, or this pool: a pinned cell brings its own thread."""
        return self._loop if name == "loop" else self

    def shutdown(self) -> None:
        """Let every thread end when it is free."""
        for _ in self._threads:
            self._ready.put(None)
        self._blocking.shutdown()
        self._loop.shutdown()


class BlockingPool:
    """Daemon threads for blocking work: one more whenever none is idle, up to a limit; beyond that, work waits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ready: SimpleQueue[Runnable | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._closed = False

    def submit(self, work: Runnable) -> None:
        """Run this, unless the pool is shut down."""
        with self._lock:
            if self._closed:
                return
            if not self._idle.acquire(blocking=False) and self._threads < self._limit:
                # Where no thread can start, this raises, and the work is not queued either.
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
    """First in, first out; of the waiting threads, the one that has waited shortest is woken.

    An ask and its reply then go to and fro between two threads whose caches are warm: with the threads in turns, as a
    `SimpleQueue` wakes them, an ask takes a fifth longer. No lock is held around the two lists: their `append` and
    `pop` are atomic, and each side checks the other's list after writing its own.
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
                return  # Another thread has woken it meanwhile.
            latch.release()

    def get(self, latch: threading.Lock) -> Runnable | None:
        """Wait for the next; `latch` is the thread's own, and held."""
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                self._idle.append(latch)
            if not (self._ready and self._stays_awake(latch)):
                latch.acquire()

    def _stays_awake(self, latch: threading.Lock) -> bool:
        """Leave the waiting threads; False where another thread is about to wake this one already."""
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
