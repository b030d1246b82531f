"""The watchdog of slow turns: a thread that logs the stack of a turn that takes too long.

The watchdog adds no cost to a turn: four times per threshold it checks which cell each thread runs, and which message
the cell handles. It uses real time, whatever clock the system has. Actors whose Props let them block are not reported.
If the same message object is handled repeatedly, several of these turns may count as one.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.durations import format_ms
from flykka.runtime.inspection.thread_stacks import stack_of_turn
from flykka.runtime.turn import Run, runs

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.system import ActorSystem

logger = logging.getLogger("flykka.runtime")


@message("kernel.slow_turn")
class SlowTurn(Message):
    """watchdog -> event stream: the actor has been handling one message for this time; others wait for its thread."""

    ref: Ref
    handles: str
    elapsed_ms: int
    thread: str
    stack: str


class Watchdog:
    """Watches the turns of a system. Reports a slow turn at the threshold, at twice that, at four times, and so on."""

    def __init__(self, system: ActorSystem, threshold_ms: int) -> None:
        self._system = system
        self._threshold = threshold_ms / 1000
        self._suspects: dict[int, _Suspect] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flykka-watchdog-{system.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def check_threads(self, now: float) -> None:
        """Check all threads once. `now` is in monotonic seconds."""
        suspects: dict[int, _Suspect] = {}
        for thread, run in runs():
            (cell,) = run
            handled = cell.current
            if cell.system is not self._system or cell.props.may_block or handled is None:
                continue
            suspect = self._suspects.get(thread)
            if suspect is None or suspect.run is not run or suspect.handled is not handled:
                suspect = _Suspect(run=run, handled=handled, since=now, patience=self._threshold)
            elif now - suspect.since >= suspect.patience:
                suspect.patience *= 2
                self._report(cell, thread, now - suspect.since)
            suspects[thread] = suspect
        self._suspects = suspects

    def _run(self) -> None:
        while not self._closed.wait(self._threshold / 4):
            try:
                self.check_threads(time.monotonic())
            except Exception:
                logger.exception("the watchdog of actor system %s failed to check", self._system.name)

    def _report(self, cell: Cell, thread: int, seconds: float) -> None:
        slow = SlowTurn(
            ref=cell.ref,
            handles=cell.handles or "a message (finished meanwhile)",
            elapsed_ms=int(seconds * 1000),
            thread=next((each.name for each in threading.enumerate() if each.ident == thread), str(thread)),
            stack=stack_of_turn(thread),
        )
        logger.warning(
            "%s has been handling %s for %s, and other actors wait for its thread %s; run blocking code with "
            "context.pipe_to_self, or the actor on a pinned dispatcher. Stack of the thread:\n%s",
            slow.ref,
            slow.handles,
            format_ms(slow.elapsed_ms),
            slow.thread,
            slow.stack,
        )
        self._system.event_stream.publish(slow)


@dataclass(slots=True, kw_only=True, eq=False)
class _Suspect:
    """A turn seen before, identified by the run and its message. `since` and `patience` are in seconds."""

    run: Run
    handled: object
    since: float
    patience: float
