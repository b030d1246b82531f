"""Ctrl-C while Spark starts: it waits for the end of the start, and then the former handler gets it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self


class DeferredInterrupts:
    """Restores the handler of SIGINT: SparkContext installs one that cancels every job of the context.

    An interrupted notebook cell would cancel all background stages with it. Only the main thread may set handlers, and
    only there SparkContext does. Meanwhile an interrupt waits: Py4J would print pages about it, and leave half a
    context behind. A second one does not wait.
    """

    def __enter__(self) -> Self:
        self._handler = signal.getsignal(signal.SIGINT)
        self._keeps = threading.current_thread() is threading.main_thread() and self._handler is not None
        self._interrupts = 0
        self.defer()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if not self._keeps:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._interrupts and kind is None:
            signal.raise_signal(signal.SIGINT)

    def defer(self) -> None:
        """Defer the first interrupt to the end of the `with`, unless interrupts are ignored anyway."""
        if self._keeps:
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._handler is signal.SIG_IGN else self._on_interrupt)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
