"""The actor system of a replay: cells, supervision and effects are the kernel's own, only nothing runs by itself."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import name_in_trace, trace_tag
from flykka.runtime import path as paths
from flykka.runtime.actor import Actor
from flykka.runtime.errors import InvalidActorNameError, SpawnRefusedError
from flykka.runtime.futures.future import Future
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.dead_letters import EmptyLocalActorRef
from flykka.runtime.mailbox.envelope import SignalEnvelope
from flykka.runtime.props import Props
from flykka.runtime.replay.coroutines import Coroutines
from flykka.runtime.replay.delivery import error_of
from flykka.runtime.replay.dispatcher import ReplayClock, ReplayDispatcher
from flykka.runtime.replay.mailbox import DeafMailbox, ReplayMailbox
from flykka.runtime.replay.replayed_turn import TakenTurn
from flykka.runtime.signals import Failed
from flykka.runtime.system import ActorSystem
from flykka.runtime.turn import RUNNING, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.recording import Recorder
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.replay.coroutines import ReplayLoop
    from flykka.runtime.replay.fork.environment import ForkEnvironment


@trace_tag("actor.boundary")
class BoundaryActor(Actor):
    """Stands where an actor was that is not replayed. It takes no turn: what it has said is in the trace.

    In a fork it takes turns, and the fork says what it does in them.
    """

    handle: Callable[[Message], object] | None = None

    def pre_start(self) -> None:
        """Have the fork put a stand-in in its place."""
        system = self.context.system
        if isinstance(system, ReplaySystem) and system.fork is not None:
            system.fork.on_created(self)

    def handle_message(self, message: Message) -> None:
        if self.handle is not None:
            self.handle(message)


_UNRECORDED = 1 << 62
"""Asks that were not recorded have numbers that no recorded one has."""

BOUNDARY = Props(BoundaryActor)
"""Props of an actor that is not replayed, for the replayed actor that spawns it."""
BOUNDARY_ACTOR = name_in_trace(BoundaryActor)


class ReplayPromise(PromiseRef):
    """Notes a reply, and no more: the actor that asked goes on with the recorded outcome, at its recorded time."""

    __slots__ = ("_is_answered", "_replay")

    def __init__(self, system: ReplaySystem, number: int, asked: ActorRef, promises: dict[int, PromiseRef]) -> None:
        super().__init__(system, number, asked, promises)
        self._replay = system
        self._is_answered = False

    def tell(self, message: Message) -> None:
        if self._replay.fork is not None:
            super().tell(message)
            return
        cell = RUNNING.cell
        if cell is None or cell.end_reason is None:
            note("reply", self, message)
            self._is_answered = True
            self._replay.forget_promise(self)

    def fail(self, failure: SerializedThrowable) -> None:
        if self._replay.fork is not None:
            super().fail(failure)

    def refuse(self, reason: str) -> None:
        if self._replay.fork is not None:
            super().refuse(reason)

    def refuse_returned(self, outcome: object) -> None:
        """Refuse as in every system, unless the reply has been told already."""
        if not self._is_answered:
            super().refuse_returned(outcome)


class LateEnd(EmptyLocalActorRef):
    """Behind a ref that was made before its actor, as in the snapshots that begin a ring: the actor, if it lives."""

    def reject(self, envelope: Envelope) -> None:
        cell = self._system.cells.find(self.ref.path)
        if cell is not None and cell.ref == self.ref:
            cell.mailbox.put(envelope)
        else:
            super().reject(envelope)

    def reject_signal(self, envelope: Envelope) -> None:
        """Hand it on, or tell a watcher what it wants to know."""
        cell = self._system.cells.find(self.ref.path)
        if cell is not None and cell.ref == self.ref and isinstance(envelope, SignalEnvelope):
            cell.mailbox.put_signal(envelope)
        else:
            super().reject_signal(envelope)


class ReplaySystem(ActorSystem):
    """Has the name, the seed and the times of the recorded system, and numbers its turns as the trace does."""

    is_in_registry = False
    """Its actors have lived before: nobody is to find them among the living, or to stop them with these."""

    def __init__(self, name: str, seed: int, only: frozenset[str] | None = None) -> None:
        self._only = only
        self.replay_clock = ReplayClock()
        self.taken = TakenTurn()
        self.schedule = ReplayDispatcher(seed, self.replay_clock, self.taken, self.resolve)
        self.number = 0
        """The sequence number of the turn in hand."""
        super().__init__(name, seed=seed, dispatcher=self.schedule, recorder=self.taken)
        self._promise_numbers = count(_UNRECORDED)
        self.coroutines = Coroutines(self)

    @property
    def loop(self) -> ReplayLoop:
        return self.schedule.loop

    def waits(self, cell: Cell, future: Future[Any]) -> None:
        """Bring it, when the turn can go on, the outcome that was recorded."""
        if self.fork is None:
            self.coroutines.waits(cell, future)

    @property
    def fork(self) -> ForkEnvironment | None:
        """The fork that the system has become; None while it is replayed."""
        return self.schedule.fork

    def go_live(self, fork: ForkEnvironment, recorder: Recorder, number: int) -> None:
        """Run by itself from here on; its turns are numbered from `number` on and told to `recorder`."""
        self.schedule.fork = fork
        self.recorder = recorder
        self._sequences = count(number)

    def next_sequence(self) -> int:
        """The number of the recorded turn; in a fork those behind it."""
        return self.number if self.fork is None else super().next_sequence()

    def mailbox(self, cell: Cell, props: Props, path: str) -> Mailbox:
        """Make a mailbox that waits for the recorded turns; in a fork an ordinary one."""
        if self.fork is not None:
            return super().mailbox(cell, props, path)
        return ReplayMailbox(cell) if props is not BOUNDARY and self.is_wanted(path) else DeafMailbox(cell)

    def is_wanted(self, path: str) -> bool:
        """Tell whether the actor at `path` is to be replayed: one that was asked for, or one above it."""
        only = self._only
        return only is None or path in only or any(each.startswith(f"{path.rstrip('/')}/") for each in only)

    def kill(self, ref: Ref) -> None:
        """A kill in a turn is put off until its record comes: others may have gone on in between."""
        if RUNNING.cell is None or self.fork is not None:
            super().kill(ref)
        else:
            note("kill", ref)

    def look_up(self, path: str, found: tuple[ActorRef, ...]) -> tuple[ActorRef, ...]:
        """Find what was found then, for on threads that depends on the moment."""
        told = None if RUNNING.cell is None or self.fork is not None else self.taken.told
        recorded = None if told is None else told.lookup(path)
        if recorded is not None:
            found = tuple(self.living(self.resolve(each.path, each.incarnation)) for each in recorded)
        return super().look_up(path, found)

    def undecided(self, child: Cell, failed: Failed, error: BaseException | None) -> BaseException | None:
        told = None if self.fork is not None else self.taken.told
        if told is None:
            return super().undecided(child, failed, error)
        return (error or child.faults.error or error_of(failed.failure)) if told.directs() else None

    def read_clock(self) -> int:
        told = None if self.fork is not None else self.taken.told
        recorded = None if told is None else told.time()
        if recorded is not None:
            self.replay_clock.set(recorded)
        return super().read_clock()

    def promise(self, asked: ActorRef) -> PromiseRef:
        told = None if self.fork is not None else self.taken.told
        number = None if told is None else told.promise()
        if number is None:
            return super().promise(asked)
        promise = self._promises[number] = ReplayPromise(self, number, asked, self._promises)
        return promise

    def forget_promise(self, promise: ReplayPromise) -> None:
        """Forget a promise that was answered; an actor that still waits holds its future."""
        self._promises.pop(promise.incarnation, None)

    def dead_ref(self, path: str, incarnation: int = 0) -> ActorRef:
        """A ref behind which no one stands, unless the actor comes later."""
        return LateEnd(self, path, incarnation).ref

    def resolve(self, path: str, incarnation: int) -> Ref:
        """Resolve as every system; the ask of an actor that is not replayed, or from outside, waits for ever."""
        if path.startswith(paths.TEMP) and incarnation not in self._promises:
            return ReplayPromise(self, incarnation, self.user.ref, self._promises)
        return super().resolve(path, incarnation)

    def admit(self, parent: Cell, props: Props, name: str) -> Cell:
        """Tell whether it is let in is what was recorded: on threads it depends on the moment."""
        told = None if self.fork is not None else self.taken.told
        path = paths.child_path(parent.ref.path, name)
        refusal = None if told is None else told.refusal(path)
        if refusal is not None:
            kind = SpawnRefusedError if refusal.error == SpawnRefusedError.__name__ else InvalidActorNameError
            raise kind(refusal.reason)
        if told is None or told.incarnation(path) is None:
            return super().admit(parent, props, name)
        present = self.cells.find(path)
        if present is not None:
            self.cells.displace(present)
        return self.cells.attach(parent, props, name, is_sure=True)

    def incarnation(self, path: str, following: int) -> int:
        told = None if RUNNING.cell is None or self.fork is not None else self.taken.told
        recorded = None if told is None else told.incarnation(path)
        return following if recorded is None else recorded

    def attach(self, props: Props, ref: Ref) -> Cell:
        """A new cell at the recorded place; those above it that are not known are boundaries."""
        parent_path, name = paths.split_path(ref.path)
        parent = self.cells.find(parent_path)
        if parent is None:
            parent = self.attach(BOUNDARY, Ref(parent_path, 1))
        present = self.cells.find(ref.path)
        if present is not None:
            # It has ended, or the next one could not be here: only the news of it come later.
            self.cells.mark_stopped(present)
        self.cells.set_next_incarnation(ref.path, ref.incarnation)
        return self.cells.attach(parent, props, name)
