"""The shared pool: few threads for all actors; and the pool for what may block."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, assert_never

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable, run_contained
from flykka.runtime.dispatch.loop import LoopDispatcher
from flykka.runtime.dispatch.pinned import PinnedDispatcher
from flykka.runtime.dispatch.ready_queue import ReadyQueue

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


def _work(ready: ReadyQueue) -> None:
    latch = threading.Lock()
    latch.acquire()
    while (runnable := ready.get(latch)) is not None:
        run_contained(runnable)
