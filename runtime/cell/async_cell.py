"""The cell of an actor whose `handle_message` is a coroutine function. It handles one message at a time, in steps on an
event loop.

While a coroutine waits, its cell is AWAITING: messages wait, but signals are handled in between, so that the actor
watches, supervises its children and can be stopped. A stop or a restart cancels the coroutine first, and takes effect
when the coroutine has ended. A kill ends the cell at once: the coroutine is cancelled too, and messages that the
coroutine still sends are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.dispatch.task_scope import TURN, Steps, TaskScope
from flykka.runtime.errors import ReplyReturnedError
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.recording import cancelled_wait, completed_effects
from flykka.runtime.signals import Recreate, Stop
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.runtime.actor import Actor
    from flykka.runtime.mailbox.envelope import SignalEnvelope, TellEntry
    from flykka.runtime.props import Props
    from flykka.runtime.system import ActorSystem


class AsyncCell(Cell):
    """The cell for Props whose dispatcher is `loop`. Its turns and the steps of its coroutines run on one thread."""

    __slots__ = ("_deferred", "_tasks", "_turn")

    on_loop = True

    def __init__(
        self, system: ActorSystem, parent: Cell | None, props: Props, name: str, path: str, incarnation: int
    ) -> None:
        super().__init__(system, parent, props, name, path, incarnation)
        self._turn: AsyncTurn | None = None
        self._deferred: list[SignalEnvelope] = []
        self._tasks: TaskScope | None = None

    def make_instance(self) -> Actor:
        self._tasks = TaskScope(self.dispatcher.loop)
        self.resources.own(self._tasks)
        instance = super().make_instance()
        for hook in (instance.pre_start, instance.post_stop, instance.pre_restart, instance.post_restart):
            if iscoroutinefunction(hook):
                raise TypeError(
                    f"{hook.__qualname__} is a coroutine function: of an actor's methods only handle_message may be one"
                )
        return instance

    @property
    def current_turn(self) -> AsyncTurn | None:
        return self._turn

    def read_time(self) -> int:
        """Return the time of this step. The reading is recorded unless a recorded event determines it."""
        if self._now is None and self._turn is not None:
            self._now = self.system.read_clock()
        return self.now()

    def forget_time(self) -> None:
        """Forget the time, so that it is read again on the next use: the wait of this step has taken time."""
        self._now = None

    def begin_task(self, task: asyncio.Task[Any]) -> None:
        if self._tasks is not None:
            self._tasks.add(task)

    def is_suspended(self) -> bool:
        return self._turn is not None

    def is_main_task(self) -> bool:
        return self._turn is not None and self._turn.task is asyncio.current_task()

    def release_all(self) -> None:
        super().release_all()
        turn = self._turn
        if turn is not None:
            self._refuse_killed(turn)

    def _tell_turn(self, entry: TellEntry) -> None:
        self._message_turn(Envelope.wrap(entry))

    def _suspend(self, outcome: object, envelope: Envelope) -> bool:
        if not isinstance(outcome, Awaitable):
            return super()._suspend(outcome, envelope)
        self._turn = AsyncTurn(self, envelope, outcome if isinstance(outcome, Coroutine) else _awaiting(outcome))
        self.state = CellState.AWAITING
        return True

    def _signal_turn(self, envelope: SignalEnvelope) -> None:
        turn = self._turn
        if turn is not None and self.end_reason is None and isinstance(envelope.message, Stop | Recreate):
            self._deferred.append(envelope)
            if _cancels(envelope, self):
                turn.cancel()
            return
        # A signal finds the cell RUNNING, and may leave it FAILED while its coroutine still waits.
        if self.state is CellState.AWAITING:
            self.state = CellState.RUNNING
        super()._signal_turn(envelope)
        if self._turn is not None and self.state is CellState.RUNNING:
            self.state = CellState.AWAITING

    def may_begin(self, turn: AsyncTurn) -> bool:
        """Return True if the turn may take its first step. Otherwise its message is rejected or queued again."""
        if self.end_reason is not None:
            self.reject(turn.envelope)
        elif turn.cancelled or self.must_end():
            self.mailbox.prepend([turn.envelope.stashed(self)])
        else:
            return True
        self._resume_messages()
        return False

    def must_end(self) -> bool:
        control = self.mailbox.control
        return bool(control) and any(_cancels(signal, self) for signal in tuple(control))

    def install_turn(self, turn: AsyncTurn) -> None:
        self.current = turn.envelope
        self.sequence = turn.sequence
        self.effects = turn.effects
        self._now = None if turn.has_begun else turn.began_ms

    def end_turn(self, turn: AsyncTurn, error: BaseException | None) -> None:
        failure = None if error is None else self._on_ended_by(error, turn)
        recorder = self.system.recorder
        if recorder is not None and turn.sequence is not None:
            effects = completed_effects(self, turn.effects)
            recorder.turn(turn.sequence, turn.began_ms, self.ref, turn.envelope, effects, failure)
        if self._was_killed():
            self._refuse_killed(turn)
        if self.receive_timeout is not None:
            self.receive_timeout.on_message(turn.envelope.message)
        self._resume_messages()

    def _resume_messages(self) -> None:
        self._turn = None
        if self.state is CellState.AWAITING:
            self.state = CellState.RUNNING
        for envelope in self._deferred:
            self.mailbox.put_signal(envelope)
        self._deferred.clear()
        self.mailbox.wake()

    def _refuse_killed(self, turn: AsyncTurn) -> None:
        if turn.envelope.reply_to is not None:
            turn.envelope.reply_to.refuse("it was killed while it handled the message")

    def _on_ended_by(self, error: BaseException, turn: AsyncTurn) -> SerializedThrowable | None:
        reply_to = turn.envelope.reply_to
        if turn.cancelled and isinstance(error, asyncio.CancelledError):
            if reply_to is not None:
                signals = (*self._deferred, *tuple(self.mailbox.control))
                end = "stopped" if any(isinstance(signal.message, Stop) for signal in signals) else "restarted"
                reply_to.refuse(f"it was {end} while it handled the message")
            return None
        if self.state is not CellState.FAILED:
            return self._on_raised(error, turn.envelope)
        # The parent is already deciding, because a child's failure was escalated.
        failure = self.faults.report(error)
        if reply_to is not None:
            reply_to.fail(failure)
        return failure


def _cancels(signal: SignalEnvelope, cell: AsyncCell) -> bool:
    # An actor that stops itself finishes its coroutine first.
    return isinstance(signal.message, Stop | Recreate) and signal.sender != cell.ref


async def _awaiting(awaitable: Awaitable[None]) -> None:
    await awaitable


class AsyncTurn:
    """A turn in steps. Signals may be handled in between, so each step sets the cell's fields again.

    The time is read once per step: it does not change while the coroutine runs, only while it waits.
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
        """True if the kernel cancelled the coroutine, so that its cancellation is not a failure."""
        self.has_begun = False
        """False until the first step. The time of that step is when the message was dequeued."""
        # Set in the cell's context, in which tasks created by the coroutine find their turn.
        TURN.set(self)
        self.task = asyncio.Task(_TurnSteps(self, coroutine), loop=cell.dispatcher.loop, context=cell.variables)
        cell.begin_task(self.task)

    def cancel(self) -> None:
        """Cancel the coroutine once, at its current wait. A coroutine that has not started will never start."""
        if not self.cancelled:
            self.cancelled = True
            if self.has_begun:
                self.task.cancel()

    def enter(self) -> Cell | None:
        """Enter a step. Returns the cell whose turn the thread was running."""
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

    def step(self, coroutine: Coroutine[Any, Any, Any], step: Callable[..., object], *args: object) -> object:
        """Run one step of the main coroutine. Returns the awaited future, or raises `StopIteration` after the last
        step.
        """
        outer = self.enter()
        try:
            if not self.has_begun:
                self._take_first_step(coroutine)
            elif not self.cancelled and self.cell.must_end():
                # Signals overtake messages: a stop may have arrived while the awaited future completed.
                self.cancelled = True
                step, args = coroutine.throw, (asyncio.CancelledError(),)
            if self.cancelled:
                return self._run_cancelled_step(step, *args)
            return step(*args)
        except BaseException as error:  # noqa: BLE001 - any failure is the parent's to judge.
            if not self.over:
                self._end(self._failure_of(error))
            raise StopIteration from None
        finally:
            self.leave(outer)

    def _run_cancelled_step(self, step: Callable[..., object], *args: object) -> object:
        """Run a step after a cancel. Records the cancelled wait unless the kernel itself was waiting."""
        place = 0 if self.effects is None else len(self.effects)
        try:
            return step(*args)
        finally:
            is_end = bool(args) and isinstance(args[0], asyncio.CancelledError)
            if is_end and self.effects is not None and self.cell.end_reason is None:
                recorded = self.effects[place : place + 1]
                if not recorded or recorded[0][0] != "awaited":
                    self.effects.insert(place, cancelled_wait(self.cell))

    def _take_first_step(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.has_begun = True
        if not self.cell.may_begin(self):
            self.over = True
            coroutine.close()
            TURN.set(None)
            raise StopIteration

    def _failure_of(self, end: BaseException) -> BaseException | None:
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
    def send(self, value: Any) -> Any:
        return self._turn.step(self._coroutine, self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._turn.step(self._coroutine, self._coroutine.throw, *error)
