"""What is ready to run, and the threads that wait for it."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.runtime.dispatch.dispatcher import Runnable


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
