"""Coroutines in a replay: each goes on with the outcomes that were recorded, as far as these reach, and waits then.

What it awaits of the kernel, asks and sleeps, gets its recorded outcome at once, in the recorded order. What asyncio
itself makes of time (a timeout, `asyncio.sleep`) is not recorded: its timers ring when the trace comes to their moment.
One moment is not told: whether a signal ended a coroutine when all that it gathered by asyncio was there already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.dispatch.task_scope import TURN
from flykka.runtime.dispatch.virtual_loop import VirtualLoop
from flykka.runtime.errors import AskTimeoutError
from flykka.runtime.futures.future import Future, Sleep
from flykka.runtime.replay.delivery import error_of, living

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Resolve
    from flykka.runtime.cell.async_turn import AsyncTurn
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.dispatch.seeded import SeededDispatcher
    from flykka.runtime.replay.system import ReplaySystem
    from flykka.runtime.trace.effects import Awaited


class ReplayLoop(VirtualLoop):
    """A virtual loop whose calls are made when the replay says so."""

    def __init__(self, dispatcher: SeededDispatcher) -> None:
        super().__init__(dispatcher)
        self.timers: list[Any] = []

    def call_at(  # type: ignore[override]  # As the base has it.
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back when the trace has come to the virtual time `when`."""
        timer = super().call_at(when, callback, *args, context=context)
        self.timers = [each for each in self.timers if not each.cancelled()]
        self.timers.append(timer)
        return timer

    def run_all(self) -> None:
        """Make all calls that can be made now."""
        while self.has_calls:
            self.run()

    @property
    def has_calls(self) -> bool:
        return bool(self._ready)

    def due(self, now_ms: int, is_wanted: Callable[[Any], bool]) -> Any:
        """The first timer that is due, of those that are wanted; None where none is."""
        running = [each for each in self.timers if not each.cancelled()]
        due = [each for each in running if each.alarm.due_ms <= now_ms and is_wanted(each)]
        return min(due, key=lambda each: each.alarm.due_ms, default=None)

    def ring(self, timer: Any) -> None:
        """Make the call of a timer the next one."""
        self.timers.remove(timer)
        call = timer.alarm.callback
        timer.alarm.cancel()
        if call is not None:
            call()


class Coroutines:
    """Has the coroutines of a system go on."""

    def __init__(self, system: ReplaySystem) -> None:
        self._system = system
        self._waiting: dict[AsyncCell, list[Future[Any]]] = {}

    def waits(self, cell: Cell, future: Future[Any]) -> None:
        told = self._system.taken.told
        if not isinstance(cell, AsyncCell) or told is None:
            return
        outcome = told.immediate(cell.effects or ())
        if outcome is not None and outcome.promise == future.promise and not _is_cancelled(outcome):
            self._system.replay_clock.set(outcome.now_ms)
            cell.forget_time()
            complete(future, outcome, self._system.resolve)
        else:
            self._waiting.setdefault(cell, []).append(future)

    def run_coroutines(self) -> None:
        """Have everyone go on as far as the record reaches."""
        loop = self._system.loop
        loop.run_all()
        for cell in list(self._waiting):
            while self._bring(cell):
                loop.run_all()
            if cell.turn_in_hand is None:
                self._waiting.pop(cell, None)

    def pass_time(self, now_ms: int, ended: Cell | None = None) -> None:
        """The trace has come to this moment, and to the end of what `ended` had in hand."""

        def is_wanted(timer: Any) -> bool:
            turn = timer._context.get(TURN)
            return turn is None or turn.cell is ended or not self._is_perhaps_ended_by_signal(turn)

        loop = self._system.loop
        while (timer := loop.due(now_ms, is_wanted)) is not None:
            self._system.replay_clock.set(self._rang_at(timer))
            loop.ring(timer)
            self.run_coroutines()

    def _rang_at(self, timer: Any) -> int:
        """The time of a timer that may have ended what its coroutine waited for: only of this it was recorded."""
        turn = timer._context.get(TURN)
        told = None if turn is None else self._system.taken.of(turn.sequence)
        outcome = None if turn is None or told is None else told.outcome(turn.effects or ())
        due_ms: int = timer.alarm.due_ms
        return outcome.now_ms if outcome is not None and _is_cancelled(outcome) else due_ms

    def _is_perhaps_ended_by_signal(self, turn: AsyncTurn) -> bool:
        """Tell whether the record of a turn ends with a wait that was cancelled: not by a timer, perhaps."""
        told = self._system.taken.of(turn.sequence)
        if told is None or told.turn.failure is not None:
            return False
        outcome = told.immediate(turn.effects or ())
        return outcome is not None and _is_cancelled(outcome) and outcome is told.turn.effects[-1]

    def _bring(self, cell: AsyncCell) -> bool:
        """Bring a coroutine what it goes on with next; False where that is not known yet."""
        turn = cell.turn_in_hand
        told = None if turn is None else self._system.taken.of(turn.sequence)
        if turn is None or told is None:
            return False
        outcome = told.outcome(turn.effects or ())
        future = None if outcome is None else self._future_of(cell, outcome)
        if outcome is None or future is None:
            return False
        self._system.replay_clock.set(outcome.now_ms)
        complete(future, outcome, self._system.resolve)
        return True

    def _future_of(self, cell: AsyncCell, outcome: Awaited) -> Future[Any] | None:
        """The future that waits for an outcome; None also for a wait that was cancelled."""
        if _is_cancelled(outcome):
            return None
        waiting = [each for each in self._waiting.get(cell, ()) if not each.done()]
        self._waiting[cell] = waiting
        if outcome.promise is not None:
            return next((each for each in waiting if each.promise == outcome.promise), None)
        others = [each for each in waiting if each.promise is None]
        return min(others, key=lambda each: each.due_ms if isinstance(each, Sleep) else 0, default=None)


def _is_cancelled(outcome: Awaited) -> bool:
    return outcome.failure is not None and outcome.failure.type_name == asyncio.CancelledError.__name__


def complete(future: Future[Any], outcome: Awaited, resolve: Resolve) -> None:
    failure = outcome.failure
    if failure is None:
        future.try_set(None if outcome.message is None else living(outcome.message, resolve))
    elif failure.type_name == AskTimeoutError.__name__:
        future.try_fail(lambda: AskTimeoutError(failure.message))
    else:
        future.try_fail(lambda: error_of(failure))
