"""The actor system of a replay: cells, supervision and effects are the kernel's own, but nothing runs by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import name_in_trace, trace_tag
from flykka.runtime import path as paths
from flykka.runtime.actor import Actor
from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.dispatch.task_scope import TURN
from flykka.runtime.dispatch.virtual_loop import VirtualLoop
from flykka.runtime.errors import AskTimeoutError, InvalidActorNameError, SpawnRefusedError
from flykka.runtime.futures.future import Future, Sleep
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.dead_letters import EmptyLocalActorRef
from flykka.runtime.mailbox.envelope import SignalEnvelope
from flykka.runtime.props import Props
from flykka.runtime.replay.delivery import error_of, with_live_refs
from flykka.runtime.replay.mailbox import ClosedMailbox, ReplayMailbox
from flykka.runtime.replay.replayed_turn import ReplayedTurn
from flykka.runtime.signals import Failed
from flykka.runtime.system import ActorSystem
from flykka.runtime.time.manual_clock import ManualClock
from flykka.runtime.turn import RUNNING, record_effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Resolve
    from flykka.runtime.cell.async_cell import AsyncTurn
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.dispatch.dispatcher import Executor, Pipe, Runnable
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.recording import Recorder
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.replay.replayed_turn import TurnInputs
    from flykka.runtime.time.clock import Alarm
    from flykka.runtime.trace.effects import Awaited


class RunningFork(Protocol):
    """The port of a replayed system to its fork, whose environment implements it."""

    def on_created(self, actor: BoundaryActor) -> None: ...

    def run_blocking(self, work: Runnable) -> None: ...

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        """Return the index of the runnable that runs next, or None for any."""


@trace_tag("actor.boundary")
class BoundaryActor(Actor):
    """Replaces an actor that is not replayed. It has no turns, because its messages are in the trace.

    In a fork it has turns, whose effects the fork determines.
    """

    handle: Callable[[Message], object] | None = None

    def pre_start(self) -> None:
        system = self.context.system
        if isinstance(system, ReplaySystem) and system.fork is not None:
            system.fork.on_created(self)

    def handle_message(self, message: Message) -> None:
        if self.handle is not None:
            self.handle(message)


_UNRECORDED = 1 << 62
"""The first number of asks that were not recorded, high enough to differ from all recorded numbers."""

BOUNDARY = Props(BoundaryActor)
"""The Props of a placeholder for an actor that is not replayed; for example, a replayed actor spawns it as a child."""
BOUNDARY_ACTOR = name_in_trace(BoundaryActor)


class ReplayPromise(PromiseRef):
    """Only records a reply. The asking actor continues with the recorded outcome, at its recorded time."""

    __slots__ = ("_is_answered", "_replay")

    def __init__(self, system: ReplaySystem, number: int, recipient: ActorRef, promises: dict[int, PromiseRef]) -> None:
        super().__init__(system, number, recipient, promises)
        self._replay = system
        self._is_answered = False

    def tell(self, message: Message) -> None:
        if self._replay.fork is not None:
            super().tell(message)
            return
        cell = RUNNING.cell
        if cell is None or cell.end_reason is None:
            record_effect("reply", self, message)
            self._is_answered = True
            self._replay.forget_promise(self)

    def fail(self, failure: SerializedThrowable) -> None:
        if self._replay.fork is not None:
            super().fail(failure)

    def refuse(self, reason: str) -> None:
        if self._replay.fork is not None:
            super().refuse(reason)

    def refuse_returned(self, outcome: object) -> None:
        if not self._is_answered:
            super().refuse_returned(outcome)


class LateEnd(EmptyLocalActorRef):
    """The target of a ref created before its actor, as in snapshots of a ring. Forwards to the actor if it lives."""

    def reject(self, envelope: Envelope) -> None:
        cell = self._system.cells.find(self.ref.path)
        if cell is not None and cell.ref == self.ref:
            cell.mailbox.put(envelope)
        else:
            super().reject(envelope)

    def reject_signal(self, envelope: Envelope) -> None:
        cell = self._system.cells.find(self.ref.path)
        if cell is not None and cell.ref == self.ref and isinstance(envelope, SignalEnvelope):
            cell.mailbox.put_signal(envelope)
        else:
            super().reject_signal(envelope)


class ReplaySystem(ActorSystem):
    """An actor system with the name, seed and times of the recorded system. It numbers its turns as the trace does."""

    is_in_registry = False
    """Replayed actors are not in Pykka's registry: they must not be found or stopped together with running ones."""

    def __init__(self, name: str, seed: int, only: frozenset[str] | None = None) -> None:
        self._only = only
        self.replay_clock = ReplayClock()
        self.replayed_turn = ReplayedTurn()
        self.schedule = ReplayDispatcher(seed, self.replay_clock, self.replayed_turn, self.resolve)
        self.number = 0
        super().__init__(name, seed=seed, dispatcher=self.schedule, recorder=self.replayed_turn)
        self._promise_numbers = count(_UNRECORDED)
        self.coroutines = Coroutines(self)

    @property
    def loop(self) -> ReplayLoop:
        return self.schedule.loop

    def waits(self, cell: Cell, future: Future[Any]) -> None:
        if self.fork is None:
            self.coroutines.waits(cell, future)

    @property
    def fork(self) -> RunningFork | None:
        return self.schedule.fork

    @property
    def is_live(self) -> bool:
        return self.fork is not None

    @property
    def _inputs(self) -> TurnInputs | None:
        return None if self.fork is not None else self.replayed_turn.inputs

    def go_live(self, fork: RunningFork, recorder: Recorder, number: int) -> None:
        """Run by itself from here on. Its turns are numbered from `number` on, and `recorder` records them."""
        self.schedule.fork = fork
        self.recorder = recorder
        self._sequences = count(number)

    def next_sequence(self) -> int:
        return self.number if self.fork is None else super().next_sequence()

    def mailbox(self, cell: Cell, props: Props, path: str) -> Mailbox:
        if self.fork is not None:
            return super().mailbox(cell, props, path)
        return ReplayMailbox(cell) if props is not BOUNDARY and self.is_replayed(path) else ClosedMailbox(cell)

    def is_replayed(self, path: str) -> bool:
        """Return True if the actor at `path` should be replayed: it was requested, or is above a requested actor."""
        only = self._only
        return only is None or path in only or any(each.startswith(f"{path.rstrip('/')}/") for each in only)

    def kill(self, ref: Ref) -> None:
        """Record a kill that a turn makes. It takes effect at its own record, as other actors may run in between."""
        if RUNNING.cell is None or self.fork is not None:
            super().kill(ref)
        else:
            record_effect("kill", ref)

    def look_up(self, path: str, refs: tuple[ActorRef, ...]) -> tuple[ActorRef, ...]:
        """Return the recorded result, because with threads the result depends on timing."""
        inputs = None if RUNNING.cell is None else self._inputs
        recorded = None if inputs is None else inputs.lookup(path)
        if recorded is not None:
            refs = tuple(self.living(self.resolve(each.path, each.incarnation)) for each in recorded)
        return super().look_up(path, refs)

    def undecided(self, child: Cell, failed: Failed, error: BaseException | None) -> BaseException | None:
        inputs = self._inputs
        if inputs is None:
            return super().undecided(child, failed, error)
        return (error or child.faults.error or error_of(failed.failure)) if inputs.directs() else None

    def read_clock(self) -> int:
        inputs = self._inputs
        recorded = None if inputs is None else inputs.time()
        if recorded is not None:
            self.replay_clock.set(recorded)
        return super().read_clock()

    def promise(self, recipient: ActorRef) -> PromiseRef:
        inputs = self._inputs
        number = None if inputs is None else inputs.promise()
        if number is None:
            return super().promise(recipient)
        promise = self._promises[number] = ReplayPromise(self, number, recipient, self._promises)
        return promise

    def forget_promise(self, promise: ReplayPromise) -> None:
        """Forget a promise that got its reply. An actor that still waits holds the promise's future."""
        self._promises.pop(promise.incarnation, None)

    def dead_ref(self, path: str, incarnation: int = 0) -> ActorRef:
        return LateEnd(self, path, incarnation).ref

    def resolve(self, path: str, incarnation: int) -> Ref:
        """Resolve as in every system. An ask that an actor that is not replayed, or a caller from outside, has sent
        waits forever.
        """
        if path.startswith(paths.TEMP) and incarnation not in self._promises:
            return ReplayPromise(self, incarnation, self.user.ref, self._promises)
        return super().resolve(path, incarnation)

    def admit(self, parent: Cell, props: Props, name: str) -> Cell:
        """Admit or refuse the child as recorded, because with threads the result depends on timing."""
        inputs = self._inputs
        path = paths.child_path(parent.ref.path, name)
        refused = None if inputs is None else inputs.refusal(path)
        if refused is not None:
            kind = SpawnRefusedError if refused.error == SpawnRefusedError.__name__ else InvalidActorNameError
            raise kind(refused.reason)
        if inputs is None or inputs.incarnation(path) is None:
            return super().admit(parent, props, name)
        present = self.cells.find(path)
        if present is not None:
            self.cells.displace(present)
        return self.cells.attach(parent, props, name, is_sure=True)

    def incarnation(self, path: str, following: int) -> int:
        inputs = None if RUNNING.cell is None else self._inputs
        recorded = None if inputs is None else inputs.incarnation(path)
        return following if recorded is None else recorded

    def attach(self, props: Props, ref: Ref) -> Cell:
        """Return a new cell at the recorded path. Unknown parents become boundaries."""
        parent_path, name = paths.split_path(ref.path)
        parent = self.cells.find(parent_path)
        if parent is None:
            parent = self.attach(BOUNDARY, Ref(parent_path, 1))
        present = self.cells.find(ref.path)
        if present is not None:
            # The actor has ended, otherwise the next actor could not be here. Only the notification comes later.
            self.cells.mark_stopped(present)
        self.cells.set_next_incarnation(ref.path, ref.incarnation)
        return self.cells.attach(parent, props, name)


class ReplayLoop(VirtualLoop):
    """A virtual loop whose calls the replay triggers."""

    def __init__(self, dispatcher: SeededDispatcher) -> None:
        super().__init__(dispatcher)
        self.timers: list[Any] = []

    def call_at(  # type: ignore[override]  # As the base has it.
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback for the time at which the trace has reached the virtual time `when`."""
        timer = super().call_at(when, callback, *args, context=context)
        self.timers = [each for each in self.timers if not each.cancelled()]
        self.timers.append(timer)
        return timer

    def run_all(self) -> None:
        while self.has_calls:
            self.run()

    @property
    def has_calls(self) -> bool:
        return bool(self._ready)

    def due(self, now_ms: int, matches: Callable[[Any], bool]) -> Any:
        running = [each for each in self.timers if not each.cancelled()]
        due = [each for each in running if each.alarm.due_ms <= now_ms and matches(each)]
        return min(due, key=lambda each: each.alarm.due_ms, default=None)

    def ring(self, timer: Any) -> None:
        self.timers.remove(timer)
        call = timer.alarm.callback
        timer.alarm.cancel()
        if call is not None:
            call()


class Coroutines:
    """Continues the coroutines of a system with the recorded outcomes, as far as these reach.

    What the coroutines await from the kernel (asks and sleeps) gets its recorded outcome at once, in the recorded
    order. Timers of asyncio itself (a timeout, `asyncio.sleep`) are not recorded: they fire when the trace reaches
    their time. One case is not recorded: whether a signal ended a coroutine after everything that it had gathered with
    asyncio was complete.
    """

    def __init__(self, system: ReplaySystem) -> None:
        self._system = system
        self._waiting: dict[AsyncCell, list[Future[Any]]] = {}

    def waits(self, cell: Cell, future: Future[Any]) -> None:
        inputs = self._system.replayed_turn.inputs
        if not isinstance(cell, AsyncCell) or inputs is None:
            return
        outcome = inputs.immediate(cell.effects or ())
        if outcome is not None and outcome.promise == future.promise and not _is_cancelled(outcome):
            self._system.replay_clock.set(outcome.now_ms)
            cell.forget_time()
            complete(future, outcome, self._system.resolve)
        else:
            self._waiting.setdefault(cell, []).append(future)

    def run_coroutines(self) -> None:
        loop = self._system.loop
        loop.run_all()
        for cell in list(self._waiting):
            while self._bring(cell):
                loop.run_all()
            if cell.current_turn is None:
                self._waiting.pop(cell, None)

    def pass_time(self, now_ms: int, ended: Cell | None = None) -> None:
        """Advance to this time of the trace, at which the current turn of `ended` has ended."""

        def matches(timer: Any) -> bool:
            turn = timer._context.get(TURN)
            return turn is None or turn.cell is ended or not self._is_perhaps_ended_by_signal(turn)

        loop = self._system.loop
        while (timer := loop.due(now_ms, matches)) is not None:
            self._system.replay_clock.set(self._rang_at(timer))
            loop.ring(timer)
            self.run_coroutines()

    def _rang_at(self, timer: Any) -> int:
        """Return when a timer fired: at the recorded time if it has cancelled a wait, otherwise when it was due."""
        turn = timer._context.get(TURN)
        inputs = None if turn is None else self._system.replayed_turn.of(turn.sequence)
        outcome = None if turn is None or inputs is None else inputs.outcome(turn.effects or ())
        due_ms: int = timer.alarm.due_ms
        return outcome.now_ms if outcome is not None and _is_cancelled(outcome) else due_ms

    def _is_perhaps_ended_by_signal(self, turn: AsyncTurn) -> bool:
        """Return True if a turn's record ends in a cancelled wait that a signal, not a timer, may have caused."""
        inputs = self._system.replayed_turn.of(turn.sequence)
        if inputs is None or inputs.turn.failure is not None:
            return False
        outcome = inputs.immediate(turn.effects or ())
        return outcome is not None and _is_cancelled(outcome) and outcome is inputs.turn.effects[-1]

    def _bring(self, cell: AsyncCell) -> bool:
        """Deliver the next outcome to a coroutine. Returns False if the outcome is not known yet."""
        turn = cell.current_turn
        inputs = None if turn is None else self._system.replayed_turn.of(turn.sequence)
        if turn is None or inputs is None:
            return False
        outcome = inputs.outcome(turn.effects or ())
        future = None if outcome is None else self._future_of(cell, outcome)
        if outcome is None or future is None:
            return False
        self._system.replay_clock.set(outcome.now_ms)
        complete(future, outcome, self._system.resolve)
        return True

    def _future_of(self, cell: AsyncCell, outcome: Awaited) -> Future[Any] | None:
        if _is_cancelled(outcome):
            return None
        futures = [each for each in self._waiting.get(cell, ()) if not each.done()]
        self._waiting[cell] = futures
        if outcome.promise is not None:
            return next((each for each in futures if each.promise == outcome.promise), None)
        unnamed = [each for each in futures if each.promise is None]
        return min(unnamed, key=lambda each: each.due_ms if isinstance(each, Sleep) else 0, default=None)


def _is_cancelled(outcome: Awaited) -> bool:
    return outcome.failure is not None and outcome.failure.type_name == asyncio.CancelledError.__name__


def complete(future: Future[Any], outcome: Awaited, resolve: Resolve) -> None:
    failure = outcome.failure
    if failure is None:
        future.try_set(None if outcome.message is None else with_live_refs(outcome.message, resolve))
    elif failure.type_name == AskTimeoutError.__name__:
        future.try_fail(lambda: AskTimeoutError(failure.message))
    else:
        future.try_fail(lambda: error_of(failure))


class ReplayClock(ManualClock):
    """A clock that shows the time of the trace. No alarm fires, because a recorded timer fires in its recorded turn."""

    def set(self, now_ms: int) -> None:
        """Set the time, even to an earlier time, because threads read the clock in their own order."""
        self._now_ms = now_ms

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        """Schedule an alarm and keep it, so that a fork from this position can fire it in virtual time."""
        alarm = super().schedule(due_ms, callback)
        self.next_due()  # This removes cancelled alarms.
        return alarm


class ReplayDispatcher(SeededDispatcher):
    """Runs nothing while the trace is replayed. In a fork, it is a seeded dispatcher."""

    def __init__(self, seed: int, clock: ReplayClock, replayed_turn: ReplayedTurn, resolve: Resolve) -> None:
        super().__init__(seed, clock)
        self.fork: RunningFork | None = None
        self._replayed = replayed_turn
        self._resolve = resolve
        self._loop: ReplayLoop = ReplayLoop(self)  # type: ignore[abstract]  # As the base has it.

    @property
    def loop(self) -> ReplayLoop:
        return self._loop

    def execute(self, runnable: Runnable) -> None:
        """Do nothing while the trace is replayed, because the cell waits for the recorded turn."""
        if self.fork is not None:
            super().execute(runnable)

    def run_blocking(self, work: Runnable) -> None:
        """Do nothing while the trace is replayed, because the outcome is in the trace, as a message."""
        if self.fork is not None:
            self.fork.run_blocking(work)

    def run_blocking_on(self, executor: Executor | None, work: Pipe[Any]) -> None:
        """Ignore the executor, because its threads do not exist here."""
        self.run_blocking(work)

    def _draw(self, ready: Sequence[Runnable]) -> int:
        choice = None if self.fork is None else self.fork.choose(ready)
        return super()._draw(ready) if choice is None else choice

    def drive(self, is_done: Callable[[], bool], timeout: float | None) -> None:
        """Complete the future for which a turn waits at once, with the recorded outcome."""
        if self.fork is not None:
            super().drive(is_done, timeout)
            return
        future, cell, inputs = getattr(is_done, "__self__", None), RUNNING.cell, self._replayed.inputs
        if not isinstance(future, Future) or cell is None or inputs is None:
            return
        outcome = inputs.outcome(cell.effects or ())
        if outcome is None or (outcome.failure is not None and outcome.failure.type_name == AskTimeoutError.__name__):
            return  # The wait timed out, and the waiting turn reports this itself.
        complete(future, outcome, self._resolve)
