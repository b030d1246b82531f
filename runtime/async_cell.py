"""The cell of an actor whose `handle_message` is a coroutine function: a message at a time, in steps on an event loop.

While a coroutine waits, its cell is AWAITING: messages wait, but signals have turns in between, so that the actor
watches, supervises its children and can be ended. What would take the instance away from under its coroutine (a stop, a
restart) cancels the coroutine first, and is obeyed when that has ended. A kill ends the cell at once, as always: the
coroutine is cancelled too, and what it still says is not heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from flykka.runtime.cell import Cell
from flykka.runtime.envelope import Envelope
from flykka.runtime.errors import ReplyReturnedError
from flykka.runtime.life import Life
from flykka.runtime.signals import Recreate, Stop
from flykka.runtime.task_scope import TURN, Steps, TaskScope
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.runtime.actor import Actor
    from flykka.runtime.envelope import SignalEnvelope, Told
    from flykka.runtime.props import Props
    from flykka.runtime.system import ActorSystem


class AsyncCell(Cell):
    """Made for Props whose dispatcher is `loop`. Its turns, and the steps of its coroutines, all run on one thread."""

    __slots__ = ("_held", "_tasks", "_turn")

    on_loop = True

    def __init__(
        self, system: ActorSystem, parent: Cell | None, props: Props, name: str, path: str, incarnation: int
    ) -> None:
        super().__init__(system, parent, props, name, path, incarnation)
        self._turn: AsyncTurn | None = None
        self._held: list[SignalEnvelope] = []
        self._tasks: TaskScope | None = None

    def make_instance(self) -> Actor:
        """A new instance, with a scope for the tasks that it begins."""
        self._tasks = TaskScope(self.dispatcher.loop)
        self.resources.own(self._tasks)
        instance = super().make_instance()
        for hook in (instance.pre_start, instance.post_stop, instance.pre_restart, instance.post_restart):
            if iscoroutinefunction(hook):
                raise TypeError(
                    f"{hook.__qualname__} is a coroutine function: of an actor only handle_message may be one"
                )
        return instance

    def begin_task(self, task: asyncio.Task[Any]) -> None:
        """Have a task end with this instance."""
        if self._tasks is not None:
            self._tasks.add(task)

    def is_main_task(self) -> bool:
        """Whether the task that runs is the one that handles a message."""
        return self._turn is not None and self._turn.task is asyncio.current_task()

    def release_all(self) -> None:
        """Give back everything; who asked what the coroutine has in hand is told at once."""
        super().release_all()
        turn = self._turn
        if turn is not None:
            self._refuse_killed(turn)

    # Turns

    def _told_turn(self, told: Told) -> None:
        self._message_turn(Envelope(*told))

    def _suspend(self, outcome: object, envelope: Envelope) -> bool:
        if not isinstance(outcome, Awaitable):
            return super()._suspend(outcome, envelope)
        self._turn = AsyncTurn(self, envelope, outcome if isinstance(outcome, Coroutine) else _awaiting(outcome))
        self.life = Life.AWAITING
        return True

    def _signal_turn(self, envelope: SignalEnvelope) -> None:
        turn = self._turn
        if turn is not None and self.end_reason is None and isinstance(envelope.message, Stop | Recreate):
            self._held.append(envelope)
            if _cancels(envelope, self):
                turn.cancel()
            return
        # To a signal the cell is one that runs, and may be left failed by it, with its coroutine in hand.
        if self.life is Life.AWAITING:
            self.life = Life.RUNNING
        super()._signal_turn(envelope)
        if self._turn is not None and self.life is Life.RUNNING:
            self.life = Life.AWAITING

    def may_begin(self, turn: AsyncTurn) -> bool:
        """Whether the turn may take its first step. If not, its message has gone where it would be without the turn."""
        if self.end_reason is not None:
            self.reject(turn.envelope)
        elif turn.cancelled or self.is_told_to_end():
            self.mailbox.prepend([turn.envelope.stashed(self)])
        else:
            return True
        self._go_back()
        return False

    def is_told_to_end(self) -> bool:
        """Whether a stop or a restart waits to be obeyed that is not the actor's own doing."""
        control = self.mailbox.control
        return bool(control) and any(_cancels(signal, self) for signal in tuple(control))

    def surround(self, turn: AsyncTurn) -> None:
        """Put everything in place that code of the turn sees of its cell."""
        self.current = turn.envelope
        self.sequence = turn.sequence
        self.effects = turn.effects
        self._now = None

    def end_turn(self, turn: AsyncTurn, error: BaseException | None) -> None:
        """The coroutine of the turn has ended; called in its last step."""
        failure = None if error is None else self._on_ended_by(error, turn)
        recorder = self.system.recorder
        if recorder is not None and turn.sequence is not None:
            recorder.turn(turn.sequence, turn.began_ms, self.ref, turn.envelope, turn.effects or [], failure)
        if self._was_killed():
            self._refuse_killed(turn)
        if self.receive_timeout is not None:
            self.receive_timeout.hear(turn.envelope.message)
        self._go_back()

    def _go_back(self) -> None:
        """Take messages again, behind what was held."""
        self._turn = None
        if self.life is Life.AWAITING:
            self.life = Life.RUNNING
        for envelope in self._held:
            self.mailbox.put_signal(envelope)
        self._held.clear()
        self.mailbox.wake()

    def _refuse_killed(self, turn: AsyncTurn) -> None:
        if turn.envelope.reply_to is not None:
            turn.envelope.reply_to.refuse("it was killed while it handled the message")

    def _on_ended_by(self, error: BaseException, turn: AsyncTurn) -> SerializedThrowable | None:
        reply_to = turn.envelope.reply_to
        if turn.cancelled and isinstance(error, asyncio.CancelledError):
            if reply_to is not None:
                signals = (*self._held, *tuple(self.mailbox.control))
                end = "stopped" if any(isinstance(signal.message, Stop) for signal in signals) else "restarted"
                reply_to.refuse(f"it was {end} while it handled the message")
            return None
        if self.life is not Life.FAILED:
            return self._on_raised(error, turn.envelope)
        # The parent decides already, about a child's failure that went further up.
        failure = self.faults.report(error)
        if reply_to is not None:
            reply_to.fail(failure)
        return failure


class AsyncTurn:
    """A turn in steps: a signal may have its turn between two of them, so each puts this turn's surroundings in place.

    The time of a turn is read once a step: it stands still while the coroutine runs, and moves while it waits.
    """

    __slots__ = ("_cancelled", "_started", "began_ms", "cell", "effects", "envelope", "over", "sequence", "task")

    def __init__(self, cell: AsyncCell, envelope: Envelope, coroutine: Coroutine[Any, Any, None]) -> None:
        self.cell = cell
        self.envelope = envelope
        self.began_ms = cell.now()
        self.sequence = cell.sequence
        self.effects, cell.effects = cell.effects, None
        self.over = False
        self._cancelled = False
        self._started = False
        # In the cell's context, where tasks that the coroutine makes find their turn.
        TURN.set(self)
        self.task = asyncio.Task(_TurnSteps(self, coroutine), loop=cell.dispatcher.loop, context=cell.variables)
        cell.begin_task(self.task)

    @property
    def cancelled(self) -> bool:
        """Whether the kernel cancelled the coroutine, so that its cancellation is no failure."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel the coroutine, once, where it waits; one that has not begun will not begin."""
        if not self._cancelled:
            self._cancelled = True
            if self._started:
                self.task.cancel()

    def enter(self) -> Cell | None:
        """A step begins. Returns whose turn the thread was in."""
        outer = RUNNING.cell
        RUNNING.cell = None if self.over else self.cell
        if not self.over:
            self.cell.surround(self)
        return outer

    def leave(self, outer: Cell | None) -> None:
        """A step is over."""
        self.cell.effects = None
        self.cell.current = None
        RUNNING.cell = outer

    def step(self, coroutine: Coroutine[Any, Any, Any], go_on: Callable[..., object], *args: object) -> object:
        """Take a step of the main coroutine: what it waits for. Raises `StopIteration` behind the last one."""
        outer = self.enter()
        try:
            if not self._started:
                self._begin(coroutine)
            elif not self._cancelled and self.cell.is_told_to_end():
                # Signals overtake: what the coroutine waited for may have ended in the same stop of the system.
                self._cancelled = True
                go_on, args = coroutine.throw, (asyncio.CancelledError(),)
            return go_on(*args)
        except BaseException as error:  # noqa: BLE001 - any failure is the parent's to judge.
            if not self.over:
                self._end(self._failure_of(error))
            raise StopIteration from None
        finally:
            self.leave(outer)

    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._started = True
        if not self.cell.may_begin(self):
            self.over = True
            coroutine.close()
            TURN.set(None)
            raise StopIteration

    def _failure_of(self, end: BaseException) -> BaseException | None:
        """What the coroutine failed with, None where it has returned as it should."""
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
    """The steps of the coroutine that `handle_message` has returned."""

    def send(self, value: Any) -> Any:
        return self._turn.step(self._coroutine, self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._turn.step(self._coroutine, self._coroutine.throw, *error)


def _cancels(signal: SignalEnvelope, cell: AsyncCell) -> bool:
    # An actor that stops itself does what it still has to do.
    return isinstance(signal.message, Stop | Recreate) and signal.sender != cell.ref


async def _awaiting(awaitable: Awaitable[None]) -> None:
    await awaitable
