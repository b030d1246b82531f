"""The actor system of a replay: cells, supervision and effects are the kernel's own, only nothing runs by itself."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flykka.messages.ref import Ref, Resolve
from flykka.runtime import path as paths
from flykka.runtime.actor import Actor
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.errors import AskTimeoutError
from flykka.runtime.future import Future
from flykka.runtime.promise import PromiseRef
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.manual_clock import ManualClock
from flykka.runtime.trace import records
from flykka.runtime.trace.recipes import name_of
from flykka.runtime.trace.replay.living import error_of, living
from flykka.runtime.trace.replay.mailbox import DeafMailbox, ReplayMailbox
from flykka.runtime.turn import RUNNING, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.runtime.cell import Cell
    from flykka.runtime.clock import Alarm
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.mailbox import Mailbox
    from flykka.runtime.recording import Effect, Recorder
    from flykka.runtime.ref import ActorRef

E = TypeVar("E", bound="records.Effect")


class BoundaryActor(Actor):
    """Stands where an actor was that is not replayed. It takes no turn: what it has said is in the trace.

    In a fork it takes turns, and the fork says what it does in them.
    """

    handle: Callable[[Message], object] | None = None

    def pre_start(self) -> None:
        """It is spawned in a fork."""
        system = self.context.system
        if isinstance(system, ReplaySystem) and system.fork is not None:
            system.fork.enter(self)

    def handle_message(self, message: Message) -> None:
        """Do what the fork says."""
        if self.handle is not None:
            self.handle(message)


class LiveFork(Protocol):
    """What a system asks of the fork that it has become."""

    def enter(self, actor: BoundaryActor) -> None:
        """An actor begins that is not replayed; called in its turn."""

    def run_blocking(self, work: Runnable) -> None:
        """An actor wants to have blocking work done."""


_UNRECORDED = 1 << 62
"""Asks that were not recorded have numbers that no recorded one has."""

BOUNDARY = Props(BoundaryActor)
"""For whoever spawns, in a replayed turn, somebody who is not replayed."""
BOUNDARY_ACTOR = name_of(BoundaryActor)


class ReplayClock(ManualClock):
    """Time as the trace tells it. No alarm rings: that of a recorded timer is taken by its turn."""

    def set(self, now_ms: int) -> None:
        """It is this time, also where that is earlier: threads read the clock in their own order."""
        self._now_ms = now_ms

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        """Keep an alarm, for whoever goes on from here in virtual time."""
        alarm = super().schedule(due_ms, callback)
        self.next_due()  # Throws out those that were cancelled.
        return alarm


class ReplayDispatcher(SeededDispatcher):
    """Runs nothing while the trace is replayed. Made live, it is a seeded dispatcher."""

    def __init__(self, seed: int, clock: ReplayClock, taken: TakenTurn, resolve: Resolve) -> None:
        super().__init__(seed, clock)
        self.fork: LiveFork | None = None
        """Set where it runs by itself."""
        self._taken = taken
        self._resolve = resolve

    def execute(self, runnable: Runnable) -> None:
        """Wait for the recorded turn."""
        if self.fork is not None:
            super().execute(runnable)

    def run_blocking(self, work: Runnable) -> None:
        """Do nothing: the outcome is in the trace, as a message."""
        if self.fork is not None:
            self.fork.run_blocking(work)

    def drive(self, done: Callable[[], bool], timeout: float | None) -> None:
        """A turn waits for a future: it goes on at once, with the outcome that was recorded."""
        if self.fork is not None:
            super().drive(done, timeout)
            return
        future = getattr(done, "__self__", None)
        if isinstance(future, Future):
            self.go_on(future)

    def go_on(self, future: Future[Any]) -> None:
        """Give a future the outcome that the turn in hand went on with; none where it had waited in vain."""
        outcome = self._taken.outcome()
        if outcome is None or future.done():
            return
        if outcome.failure is not None:
            failure = outcome.failure
            if failure.type_name != AskTimeoutError.__name__:
                future.try_fail(lambda: error_of(failure))
        else:
            future.try_set(None if outcome.message is None else living(outcome.message, self._resolve))


class TakenTurn:
    """What a replayed turn did, as the kernel's recorder is told of it."""

    def __init__(self) -> None:
        self.effects: list[Effect] | None = None
        """None where no turn was taken."""
        self.failure: SerializedThrowable | None = None
        self._recorded: records.Turn | None = None
        self._outcomes: Iterator[records.Awaited] | None = None
        self._promises: Iterator[int] | None = None
        self._lookups: deque[records.Lookup] | None = None

    def begin(self, recorded: records.Turn) -> None:
        """A turn is to be taken, of which this was recorded."""
        self.effects = self.failure = None
        self._recorded = recorded
        # Most turns ask for none of what follows.
        self._outcomes = self._promises = self._lookups = None

    def promise(self) -> int | None:
        """The number of the next ask; None where it was not recorded."""
        if self._promises is None:
            asked = (each.promise for each in self._all(records.Send))
            self._promises = (promise.incarnation for promise in asked if promise is not None)
        return next(self._promises, None)

    def lookup(self, path: str) -> tuple[Ref, ...] | None:
        """Who was found at `path`, where the next recorded look was for this one."""
        if self._lookups is None:
            self._lookups = deque(self._all(records.Lookup))
        if self._lookups and self._lookups[0].path == path:
            return self._lookups.popleft().refs
        return None

    def outcome(self) -> records.Awaited | None:
        """What the turn goes on with next where it waits; None where nothing was recorded."""
        if self._outcomes is None:
            self._outcomes = iter(self._all(records.Awaited))
        return next(self._outcomes, None)

    def incarnation(self, path: str) -> int | None:
        """Which incarnation was spawned at `path`; None where none was."""
        spawned = (each.ref for each in self._all(records.Spawn))
        return next((ref.incarnation for ref in spawned if ref.path == path), None)

    def _all(self, kind: type[E]) -> list[E]:
        effects = () if self._recorded is None else self._recorded.effects
        return [each for each in effects if isinstance(each, kind)]

    def open(self, *, system: str, seed: int) -> None:
        """Nothing to begin."""

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        """As recorded."""

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        """The turn that was forced."""
        self.effects = effects
        self.failure = failure

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """As recorded."""

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """As recorded."""

    def close(self) -> None:
        """Nothing to end."""


class ReplaySystem(ActorSystem):
    """Has the name, the seed and the times of the recorded system, and numbers its turns as the trace does."""

    def __init__(self, name: str, seed: int) -> None:
        self.replay_clock = ReplayClock()
        self.taken = TakenTurn()
        self.schedule = ReplayDispatcher(seed, self.replay_clock, self.taken, self.resolve)
        self.number = 0
        """The sequence number of the turn in hand."""
        super().__init__(name, seed=seed, dispatcher=self.schedule, recorder=self.taken)
        self._promise_numbers = count(_UNRECORDED)

    @property
    def fork(self) -> LiveFork | None:
        """What the system has become, where it runs by itself."""
        return self.schedule.fork

    def go_live(self, fork: LiveFork, recorder: Recorder, number: int) -> None:
        """Run by itself from here on; its turns are numbered from `number` on and told to `recorder`."""
        self.schedule.fork = fork
        self.recorder = recorder
        self._sequences = count(number)

    def next_sequence(self) -> int:
        """That of the recorded turn; in a fork those behind it."""
        return self.number if self.fork is None else super().next_sequence()

    def mailbox(self, cell: Cell, props: Props) -> Mailbox:
        """One that waits for the recorded turns; in a fork an ordinary one."""
        if self.fork is not None:
            return super().mailbox(cell, props)
        return DeafMailbox(cell) if props is BOUNDARY else ReplayMailbox(cell)

    def kill(self, ref: Ref) -> None:
        """A kill in a turn is put off until its record comes: others may have gone on in between."""
        if RUNNING.cell is None or self.fork is not None:
            super().kill(ref)
        else:
            note("kill", ref)

    def look_up(self, path: str, found: tuple[ActorRef, ...]) -> tuple[ActorRef, ...]:
        """As it was recorded, for on threads it depends on the moment."""
        recorded = None if RUNNING.cell is None or self.fork is not None else self.taken.lookup(path)
        if recorded is not None:
            found = tuple(self.living(self.resolve(each.path, each.incarnation)) for each in recorded)
        return super().look_up(path, found)

    def promise(self, asked: ActorRef) -> PromiseRef:
        """The ref of the recorded ask."""
        number = None if self.fork is not None else self.taken.promise()
        if number is None:
            return super().promise(asked)
        promise = self._promises[number] = PromiseRef(self, number, asked, self._promises)
        return promise

    def resolve(self, path: str, incarnation: int) -> Ref:
        """As every system; but an ask from outside, or of an actor that is not replayed, is awaited for ever."""
        if path.startswith(paths.TEMP) and incarnation not in self._promises:
            return PromiseRef(self, incarnation, self.user.ref, self._promises)
        return super().resolve(path, incarnation)

    def incarnation(self, path: str, following: int) -> int:
        """That which was recorded."""
        recorded = None if self.fork is not None else self.taken.incarnation(path)
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
            self.cells.end(present)
        self.cells.expect(ref.path, ref.incarnation)
        return self.cells.attach(parent, props, name)
