"""Interrupts of threads that are in code of the user's, as Flink's TaskInterrupter does with those of a task.

CPython raises an exception in another thread between two of its instructions. So what computes, sleeps a little again
and again or waits for Spark is interrupted, and what is in one long call into native code only behind it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

from flykka.spark_bridge.errors import AttemptCancelledError


class ThreadInterrupts:
    """Knows which threads may be interrupted now: none that has one of our own locks in hand, or is to take it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: set[int] = set()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """The calling thread may be interrupted meanwhile, and then `AttemptCancelledError` comes out of here."""
        me = get_ident()
        with self._lock:
            self._inside.add(me)
        try:
            yield
        finally:
            # An interrupt that was raised by now comes before the end of this: behind it there is none.
            with self._lock:
                self._inside.discard(me)

    def interrupt(self) -> int:
        """Interrupt every thread that may be, each once; how many there were."""
        with self._lock:
            interrupted = [thread for thread in self._inside if _raise_in(thread)]
            self._inside.clear()
        return len(interrupted)


def _raise_in(thread: int) -> bool:
    raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(AttemptCancelledError))
    return bool(raised)
