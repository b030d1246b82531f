"""A thread for the code of one coordinator of the user's: one call after the other, in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from flykka.runtime.dispatch.pipe import Pipe

_IDLE_SECONDS = 10.0


class CoordinatorThread:
    """Runs blocking work on a thread of its own, which ends when it has had nothing to do for a while.

    So nobody has to end it: not even where its JobMaster is killed.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[Pipe[Any]] = deque()
        self._runs = False

    def run_blocking(self, work: Pipe[Any]) -> None:
        """Put work in line; returns at once."""
        with self._changed:
            self._waiting.append(work)
            self._changed.notify()
            if self._runs:
                return
            self._runs = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting and not self._changed.wait_for(lambda: bool(self._waiting), _IDLE_SECONDS):
                    self._runs = False
                    return
                work = self._waiting.popleft()
            work.run()
