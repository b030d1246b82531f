"""The watchdog of slow turns: a thread that samples the others, and shows the stack of a turn that lasts too long.

A turn costs nothing for it: the watchdog finds the turns in the stacks of the running threads, four times within the
threshold. So it uses real time, whatever clock the system has. Actors on pinned threads may block and are not reported.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from types import FrameType
from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.async_turn import AsyncTurn
from flykka.runtime.cell.cell import Cell
from flykka.runtime.durations import format_ms

if TYPE_CHECKING:
    from flykka.runtime.system import ActorSystem

logger = logging.getLogger("flykka.runtime")

_TURNS = frozenset(
    function.__code__ for function in (Cell._told_turn, Cell._message_turn, Cell._signal_turn, AsyncTurn.step)
)
"""Code of functions that run for as long as a turn lasts; of a coroutine, a step."""


@message("kernel.slow_turn")
class SlowTurn(Message):
    """watchdog -> event stream: the actor has been handling one message for so long, and blocks a shared thread."""

    ref: Ref
    handles: str
    elapsed_ms: int
    thread: str
    stack: str


class Watchdog:
    """Watches the turns of a system. It reports a slow one at the threshold, at twice that, at four times."""

    def __init__(self, system: ActorSystem, threshold_ms: int) -> None:
        self._system = system
        self._threshold = threshold_ms / 1000
        self._suspects: dict[int, _Suspect] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flykka-watchdog-{system.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()

    def check_threads(self, now: float) -> None:
        """Check all threads once; `now` is in monotonic seconds."""
        suspects: dict[int, _Suspect] = {}
        for thread, frame in sys._current_frames().items():
            turn = _turn_in(frame)
            if turn is None:
                continue
            cell = _cell_of(turn)
            if cell.system is not self._system or cell.props.dispatcher == "pinned":
                continue
            suspect = self._suspects.get(thread)
            if suspect is None or suspect.turn is not turn:
                suspect = _Suspect(turn, now, self._threshold)
            elif now - suspect.since >= suspect.patience:
                suspect.patience *= 2
                self._tell(cell, frame, turn, thread, now - suspect.since)
            suspects[thread] = suspect
        self._suspects = suspects

    def _run(self) -> None:
        while not self._closed.wait(self._threshold / 4):
            try:
                self.check_threads(time.monotonic())
            except Exception:
                # It must outlive any error in reading the stacks of others.
                logger.exception("the watchdog of actor system %s failed to check", self._system.name)

    def _tell(self, cell: Cell, frame: FrameType, turn: FrameType, thread: int, seconds: float) -> None:
        slow = SlowTurn(
            ref=cell.ref,
            handles=cell.handles or "nothing any more",
            elapsed_ms=int(seconds * 1000),
            thread=next((each.name for each in threading.enumerate() if each.ident == thread), str(thread)),
            stack=_stack_of(frame, turn),
        )
        logger.warning(
            "%s has been handling %s for %s and keeps the thread %s from others; what blocks belongs into "
            "context.pipe_to_self, or the actor on a pinned dispatcher. It is here:\n%s",
            slow.ref,
            slow.handles,
            format_ms(slow.elapsed_ms),
            slow.thread,
            slow.stack,
        )
        self._system.event_stream.publish(slow)


class _Suspect:
    """Turn seen before, known by its frame: the next turn of the same actor has another."""

    __slots__ = ("patience", "since", "turn")

    def __init__(self, turn: FrameType, since: float, patience: float) -> None:
        self.turn = turn
        self.since = since
        self.patience = patience


def _turn_in(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code not in _TURNS:
        frame = frame.f_back
    return frame


def _cell_of(turn: FrameType) -> Cell:
    owner: Cell | AsyncTurn = turn.f_locals["self"]
    return owner.cell if isinstance(owner, AsyncTurn) else owner


def _stack_of(frame: FrameType, turn: FrameType) -> str:
    """Format the stack from the turn's own code inwards."""
    frames: list[tuple[FrameType, int]] = []
    each: FrameType | None = frame
    while each is not None and each is not turn:
        frames.append((each, each.f_lineno))
        each = each.f_back
    frames.reverse()
    return "".join(traceback.StackSummary.extract(iter(frames)).format()).rstrip("\n")
