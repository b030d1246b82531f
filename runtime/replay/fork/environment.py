"""The environment of the actors of a fork: stand-ins for those that are not replayed, messages from outside, and time.

Everything is taken from the record as long as it fits (`recorded_world`, `recorded_stand_in`). What does
not fit is answered by nobody, which is noted; blocking work that was not recorded is answered by the caller's function.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING

from flykka.messages.monitoring.blocking_work import BlockingWork
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.lifecycle import Life
from flykka.runtime.dispatch.pipe import Pipe, described
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope
from flykka.runtime.replay.delivery import UnknownTypeError, living
from flykka.runtime.replay.fork.recorded_stand_in import RecordedStandIn
from flykka.runtime.replay.fork.recorded_world import FromOutside, RecordedWorld
from flykka.runtime.replay.mailbox import Entry, ReplayMailbox
from flykka.runtime.replay.system import BOUNDARY, BoundaryActor
from flykka.runtime.trace.records import Killed, Spawned, Turn
from flykka.runtime.trace.text import message_text

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.replay.engine import ReplayEngine

UnrecordedWork = Callable[[BlockingWork, Callable[[], object]], object]
"""Returns the result of blocking work that was not recorded, given its description and the call; or it raises."""

Tell = Callable[..., object]
"""Tells a message, with `first=True` ahead of all that waits."""
_LOOKS_AHEAD = 16


class ForkEnvironment:
    """The live side of one fork.

    Args:
        engine: has replayed all that lies before the fork; what it has not is taken out of it.
        number: of the turn at which the fork begins.
        unrecorded: what unrecorded blocking work would have returned; None for no answer.
        paced: the functions of such work that take as long as they did in the recording; others take no time.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        number: int,
        unrecorded: UnrecordedWork | None,
        paced: Container[str] = (),
    ) -> None:
        self.silent: dict[str, str] = {}
        """Actors that were told something which nobody answered, by path, with the first such message."""
        self._engine = engine
        self._system = engine.system
        self._number = number
        self._unrecorded = unrecorded
        self._paced = paced
        self._stand_ins: list[RecordedStandIn] = []
        self._awaited = 0
        self._usual: dict[str, int] | None = None
        self.world = RecordedWorld(list(engine.records), self._is_boundary, self._is_waiting)
        self.schedule = RecordedSchedule(self.world.turns_by_actor)
        self._coming: deque[FromOutside] = deque()

    def stand_in_for_boundaries(self, cells: Sequence[Cell]) -> None:
        """Put stand-ins in the place of the actors that are not replayed."""
        for cell in cells:
            if cell.props is BOUNDARY and cell.life is Life.STARTING:
                actor = cell.make_instance()
                cell.life = Life.RUNNING
                assert isinstance(actor, BoundaryActor)
                self._stand_in(actor)

    def put_in_flight(self) -> None:
        """Put into the mailboxes what lay in them then, from or for actors that are not replayed."""
        for turn in self.world.in_flight:
            self.told(turn, turn.cause)()

    def schedule_outside_messages(self) -> None:
        """Schedule what comes from outside and what the stand-ins tell themselves."""
        for stand_in in list(self._stand_ins):
            stand_in.schedule_own()
        self._coming = deque(self.world.from_outside)
        self._awaited = len(self._coming)
        self._schedule_next()

    def later(self, late_ms: int, call: Callable[[], object]) -> None:
        """Call in so much virtual time, at once for none."""
        if late_ms == 0:
            call()
        else:
            self._system.clock.schedule(self._system.clock.now_ms() + late_ms, call)

    def on_created(self, actor: BoundaryActor) -> None:
        """Have a stand-in take the turns of an actor that is not replayed; called in its first turn."""
        stand_in = self._stand_in(actor)
        stand_in.create()
        stand_in.schedule_own()

    def run_blocking(self, work: Runnable) -> None:
        """Answer blocking work of an actor: with what was recorded, or with what `unrecorded` returns."""
        if not isinstance(work, Pipe):
            self._system.schedule.execute(work)
            return
        cell, wanted = work.cell, described(work.work)
        outcomes = self.world.outcomes[cell.ref.path]
        same = [each for each in outcomes if each.work == wanted]
        heard = None if cell.current is None else Envelope.wrap(cell.current).message
        # What the work came to is told in words of the turn that began it, such as the version of a plan.
        outcome = next((each for each in same if each.heard == heard), None)
        if outcome is None and self._unrecorded is None:
            outcome = next(iter(same), None)
        if outcome is not None:
            outcomes.remove(outcome)
            due = Due(outcome.turn.sequence, partial(self.told(outcome.turn, cell.sequence), first=True))
            self.later(outcome.delay_ms, lambda: self._system.schedule.execute(due))
        elif self._unrecorded is not None:
            answer, do = self._unrecorded, work.work
            answered = work.with_work(lambda: answer(wanted, do))
            delay_ms = same[0].delay_ms if same else self._usual_delay_ms(wanted.function)
            self.later(delay_ms, lambda: self._system.schedule.execute(answered))
        else:
            self.silent.setdefault(cell.ref.path, f"blocking work {wanted.function}")

    def _usual_delay_ms(self, function: str) -> int:
        """The median time that such work took in the whole recording, in ms."""
        if function not in self._paced:
            return 0
        if self._usual is None:
            recorded = RecordedWorld(self._engine.trace.records(), lambda _: False, lambda _: False)
            took: defaultdict[str, list[int]] = defaultdict(list)
            for outcome in (each for outcomes in recorded.outcomes.values() for each in outcomes):
                if isinstance(outcome.work, BlockingWork):
                    took[outcome.work.function].append(outcome.delay_ms)
            self._usual = {name: median_low(delays) for name, delays in took.items()}
        return self._usual.get(function, 0)

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        """The place of the runnable that ran next in the recording; None where it does not tell."""
        return self.schedule.choose(ready)

    def _stand_in(self, actor: BoundaryActor) -> RecordedStandIn:
        context = actor.context
        stand_in = RecordedStandIn(context, self.world.turns_by_actor.get(context.ref, []), self._note_silence)
        self._stand_ins.append(stand_in)
        actor.handle = stand_in.repeat_recorded
        return stand_in

    def _note_silence(self, path: str, message: Message) -> None:
        self.silent.setdefault(path, message_text(message))

    @property
    def expects_more(self) -> bool:
        """Tell whether something that was recorded is still to come from outside."""
        return self._awaited > 0

    def _schedule_next(self) -> None:
        """Bring the messages from outside that are due, and set one alarm, for the next."""
        clock = self._system.clock
        while self._coming and self._coming[0].now_ms <= clock.now_ms():
            record = self._coming.popleft()
            self._system.schedule.execute(Due(record.sequence, partial(self._bring, record)))
        if self._coming:
            clock.schedule(self._coming[0].now_ms, self._schedule_next)

    def _bring(self, record: FromOutside) -> None:
        self._awaited -= 1
        match record:
            case Killed(ref=ref):
                killer = self.world.killer_of(ref)
                if killer is None or not self._is_replayed(killer):
                    self._system.kill(ref)
            case Spawned():
                self._engine.spawn(record).start()
            case Turn():
                self.told(record, record.cause)()

    def told(self, turn: Turn, cause: int | None) -> Tell:
        """The function that tells the message of a recorded turn to the actor that has its path by then."""

        def tell(*, first: bool = False) -> None:
            system = self._system
            try:
                message = living(turn.message, system.resolve)
            except UnknownTypeError as unknown:
                self.silent.setdefault(turn.recipient.path, f"a message that cannot be read: {unknown}")
                return
            sender = None if turn.sender is None else system.resolve(turn.sender.path, turn.sender.incarnation)
            hearer = system.living(turn.recipient)
            asker = sender if isinstance(sender, PromiseRef) else None
            is_signal = turn.kind == "signal"
            entry = SignalEnvelope(message, sender, cause) if is_signal else Envelope(message, sender, cause, asker)
            put(hearer.actor_inbox, entry, first=first)

        return tell

    def _is_boundary(self, ref: Ref) -> bool:
        cell = self._system.cells.find(ref.path)
        return cell is not None and cell.ref == ref and cell.props is BOUNDARY

    def _is_replayed(self, ref: Ref) -> bool:
        cell = self._system.cells.find(ref.path)
        return cell is not None and cell.props is not BOUNDARY

    def _is_waiting(self, turn: Turn) -> bool:
        cell = self._system.cells.find(turn.recipient.path)
        return cell is not None and isinstance(cell.mailbox, ReplayMailbox) and cell.mailbox.holds(turn)


def put(mailbox: Mailbox, entry: Entry, *, first: bool = False) -> None:
    """Put a message into a mailbox, `first` ahead of all others."""
    if isinstance(entry, SignalEnvelope):
        mailbox.put_signal(entry)
    elif first and not mailbox.closed:
        mailbox.prepend([entry])
        mailbox.wake()
    else:
        mailbox.put(entry)


def tell_nothing(*, first: bool = False) -> None:
    """Tell no message."""


@dataclass(frozen=True, slots=True)
class Due:
    """Something to be done when the turn `sequence` would come."""

    sequence: int
    call: Callable[[], object]

    def run(self) -> None:
        self.call()


class RecordedSchedule:
    """Chooses, of the actors that could run next, the one whose next recorded turn was the first.

    Where an actor is in the record is found by what it handles; a message that was not recorded leaves it where it is.

    Args:
        turns: the recorded turns of each actor, in their order.
    """

    def __init__(self, turns: Mapping[Ref, Sequence[Turn]]) -> None:
        self._turns = turns
        self._places: dict[Ref, int] = {}

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        """The place of who is to run; None where the record tells of none of them."""
        first = None
        best = (0, False)
        for place, runnable in enumerate(ready):
            sequence = self._sequence_of(runnable)
            # What is due for a turn comes before its actor runs.
            rank = (sequence or 0, isinstance(runnable, Cell))
            if sequence is not None and (first is None or rank < best):
                first, best = place, rank
        return first

    def taken(self, turn: Turn) -> None:
        recorded = self._turns.get(turn.recipient, ())
        place = self._places.get(turn.recipient, 0)
        for ahead in range(place, min(place + _LOOKS_AHEAD, len(recorded))):
            if recorded[ahead].kind == turn.kind and recorded[ahead].message == turn.message:
                self._places[turn.recipient] = ahead + 1
                return

    def _sequence_of(self, runnable: Runnable) -> int | None:
        if isinstance(runnable, Due):
            return runnable.sequence
        if not isinstance(runnable, Cell):
            return None
        recorded = self._turns.get(runnable.ref, ())
        place = self._places.get(runnable.ref, 0)
        return recorded[place].sequence if place < len(recorded) else None
