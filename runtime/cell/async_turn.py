"""The handling of one message by a coroutine, from its first step to its last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from flykka.runtime.dispatch.task_scope import TURN, Steps
from flykka.runtime.errors import ReplyReturnedError
from flykka.runtime.recording import cancelled_wait
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from flykka.runtime.cell.async_cell import AsyncCell
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope


class AsyncTurn:
    """Turn in steps. Signals may have turns between two of them, so each step sets the cell's fields again.

    The time of a turn is read once a step: it stands still while the coroutine runs, and moves while it waits.
    """

    __slots__ = ("began_ms", "cancelled", "cell", "effects", "envelope", "has_begun", "over", "sequence", "task")

    def __init__(self, cell: AsyncCell, envelope: Envelope, coroutine: Coroutine[Any, Any, None]) -> None:
        self.cell = cell
        self.envelope = envelope
        self.began_ms = cell.now()
        self.sequence = cell.sequence
        self.effects, cell.effects = cell.effects, None
        self.over = False
        self.cancelled = False
        """Set where the kernel cancelled the coroutine, so that its cancellation is no failure."""
        self.has_begun = False
        """Set with the first step, whose time is that at which the message was dequeued."""
        # In the cell's context, where tasks that the coroutine makes find their turn.
        TURN.set(self)
        self.task = asyncio.Task(_TurnSteps(self, coroutine), loop=cell.dispatcher.loop, context=cell.variables)
        cell.begin_task(self.task)

    def cancel(self) -> None:
        """Cancel the coroutine, once, where it waits; one that has not started never will."""
        if not self.cancelled:
            self.cancelled = True
            if self.has_begun:
                self.task.cancel()

    def enter(self) -> Cell | None:
        """Enter a step. Returns the cell whose turn the thread was in."""
        outer = RUNNING.cell
        RUNNING.cell = None if self.over else self.cell
        if not self.over:
            RUNNING.run = (self.cell,)
            self.cell.install_turn(self)
        return outer

    def leave(self, outer: Cell | None) -> None:
        self.cell.effects = None
        self.cell.current = None
        RUNNING.cell, RUNNING.run = outer, None

    def step(self, coroutine: Coroutine[Any, Any, Any], go_on: Callable[..., object], *args: object) -> object:
        """Take a step of the main coroutine; returns the awaited future, raises `StopIteration` after the last step."""
        outer = self.enter()
        try:
            if not self.has_begun:
                self._take_first_step(coroutine)
            elif not self.cancelled and self.cell.is_told_to_end():
                # Signals overtake: the awaited future may have ended in the same stop of the system.
                self.cancelled = True
                go_on, args = coroutine.throw, (asyncio.CancelledError(),)
            if self.cancelled:
                return self._go_on_cancelled(go_on, *args)
            return go_on(*args)
        except BaseException as error:  # noqa: BLE001 - any failure is the parent's to judge.
            if not self.over:
                self._end(self._failure_of(error))
            raise StopIteration from None
        finally:
            self.leave(outer)

    def _go_on_cancelled(self, go_on: Callable[..., object], *args: object) -> object:
        """Take a step after a cancel, and record the cancelled wait where it was none of the kernel's own."""
        place = 0 if self.effects is None else len(self.effects)
        try:
            return go_on(*args)
        finally:
            is_end = bool(args) and isinstance(args[0], asyncio.CancelledError)
            if is_end and self.effects is not None and self.cell.end_reason is None:
                noted = self.effects[place : place + 1]
                if not noted or noted[0][0] != "awaited":
                    self.effects.insert(place, cancelled_wait(self.cell))

    def _take_first_step(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.has_begun = True
        if not self.cell.may_begin(self):
            self.over = True
            coroutine.close()
            TURN.set(None)
            raise StopIteration

    def _failure_of(self, end: BaseException) -> BaseException | None:
        """Return the error that the coroutine ended with, None where it returned as it should."""
        reply_to = self.envelope.reply_to
        if not isinstance(end, StopIteration):
            return end
        if end.value is not None and reply_to is not None:
            try:
                reply_to.refuse_returned(end.value)
            except ReplyReturnedError as error:
                return error
        return None

    def _end(self, error: BaseException | None) -> None:
        self.over = True
        TURN.set(None)
        self.cell.end_turn(self, error)


class _TurnSteps(Steps):
    """Steps of the coroutine that `handle_message` returned."""

    def send(self, value: Any) -> Any:
        return self._turn.step(self._coroutine, self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._turn.step(self._coroutine, self._coroutine.throw, *error)
