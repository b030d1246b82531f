"""Wakes a source when something new is there, between two discoveries, so that it need not wait for the next one.

A look whether something has changed is cheap where the storage can tell, and is taken many times a second on a thread
that ends with the next discovery, when the interval is over, or with the actor. What comes too late is no loss: the
discovery of the interval finds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_PAUSE_MS = 10


class DiscoveryWatch:
    """Watches one source. `wake` is called on another thread, once at most for each `begin`."""

    def __init__(self, wake: Callable[[], object], is_needed: Callable[[], bool]) -> None:
        self._wake = wake
        self._is_needed = is_needed
        self._watching: threading.Event | None = None

    def begin(self, changed: Callable[[], bool], within_ms: int) -> None:
        """Wake the source when it has `changed`, within this time."""
        over = self._watching = threading.Event()
        looks = within_ms // _PAUSE_MS - 1
        threading.Thread(target=self._watch, args=(changed, over, looks), name="flykka-discovery", daemon=True).start()

    def end(self) -> None:
        """Watch no more."""
        if self._watching is not None:
            self._watching.set()

    def _watch(self, changed: Callable[[], bool], over: threading.Event, looks: int) -> None:
        for _ in range(looks):
            if over.wait(_PAUSE_MS / 1000) or not self._is_needed():
                return
            if changed():
                self._wake()
                return
