"""Interrupts of threads that are in code of the user's, as Flink's TaskInterrupter does with those of a task.

CPython raises an exception in another thread between two of its instructions. So code that computes, sleeps in short
steps or waits for Spark is interrupted, and a long call into native code only after it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

from flykka.spark_bridge.errors import AttemptCancelledError


class ThreadInterrupts:
    """Threads that may be interrupted now: none that holds one of our locks, or is about to acquire it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: set[int] = set()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Allow interrupts of the calling thread in this block: they raise `AttemptCancelledError`."""
        me = get_ident()
        with self._lock:
            self._inside.add(me)
        try:
            yield
        finally:
            # A pending interrupt is raised before the end of this block: after it there is none.
            with self._lock:
                self._inside.discard(me)

    def interrupt(self) -> int:
        """Interrupt every thread that allows it, each once. Returns their number."""
        with self._lock:
            interrupted = [thread for thread in self._inside if _raise_in(thread)]
            self._inside.clear()
        return len(interrupted)


def _raise_in(thread: int) -> bool:
    raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(AttemptCancelledError))
    return bool(raised)
