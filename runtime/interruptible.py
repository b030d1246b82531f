"""Waiting so that Ctrl-C is heard."""

from __future__ import annotations

import threading
from time import monotonic

_HEARING_SECONDS = 0.25


def acquire(latch: threading.Lock, timeout: float | None) -> bool:
    """As the lock's own `acquire`, in seconds, and an interrupt of the main thread is heard within a quarter of one.

    CPython looks for signals before a thread waits for a lock, and again when a signal breaks the wait off. One that
    comes in between, while the thread gives away the interpreter that others want, or to another thread, would be
    heard when the lock is released: perhaps never. Only the main thread handles signals, so only it looks up.
    """
    if threading.current_thread() is not threading.main_thread():
        return latch.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
    deadline = None if timeout is None else monotonic() + timeout
    while True:
        left = _HEARING_SECONDS if deadline is None else max(0.0, min(_HEARING_SECONDS, deadline - monotonic()))
        if latch.acquire(timeout=left):
            return True
        if deadline is not None and monotonic() >= deadline:
            return False
