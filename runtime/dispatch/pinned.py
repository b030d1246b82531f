"""A thread for one actor alone, so that it may block without keeping others waiting."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable, run_contained

if TYPE_CHECKING:
    from flykka.runtime.props import DispatcherName


class PinnedDispatcher(Dispatcher):
    """Begun with the actor's first turn, ended behind its last one."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[Runnable | None] = SimpleQueue()
        self._started = False

    def execute(self, runnable: Runnable) -> None:
        """Run the cell on its thread."""
        # Only the holder of the cell's claim comes here, so that there is no race for the first time.
        self._ready.put(runnable)
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name=f"flykka-pinned-{runnable}", daemon=True).start()

    def run_blocking(self, work: Runnable) -> None:
        """Refused: blocking work goes to the system's dispatcher."""
        raise TypeError("a pinned thread belongs to one actor")

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Refused: cells get their dispatcher from the system's."""
        raise TypeError("a pinned thread belongs to one actor")

    def release(self) -> None:
        """End the thread when it is free."""
        self._ready.put(None)

    def shutdown(self) -> None:
        """End the thread when it is free."""
        self.release()

    def _work(self) -> None:
        while (runnable := self._ready.get()) is not None:
            run_contained(runnable)
