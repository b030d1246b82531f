"""What surrounds the actors of a fork: who plays those that are not replayed, what comes from outside, and when.

Everything is taken from the record as long as it fits (`world`, `role`, `schedule`). What does not fit is answered by
whoever is named `beyond`, or by nobody, which is noted.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Sequence
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING

from flykka.messages.monitoring.blocking_work import BlockingWork
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.lifecycle import Life
from flykka.runtime.futures.pipe import Pipe, described
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope
from flykka.runtime.trace.records import Killed, Spawned, Turn
from flykka.runtime.trace.replay.living import UnknownTypeError, living
from flykka.runtime.trace.replay.mailbox import Entry, ReplayMailbox
from flykka.runtime.trace.replay.role import Beyond, Heard, Role
from flykka.runtime.trace.replay.schedule import Due, RecordedSchedule
from flykka.runtime.trace.replay.system import BOUNDARY, BoundaryActor
from flykka.runtime.trace.replay.world import FromOutside, RecordedWorld, is_servant, is_servants_own
from flykka.runtime.trace.text import message_text

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.trace.replay.engine import ReplayEngine

BeyondWork = Callable[[BlockingWork, Callable[[], object]], object]
"""What blocking work returns that was not recorded, told what it is and what would do it; or it raises."""

Tell = Callable[..., object]
"""Tells a message, with `first=True` ahead of all that waits."""


class Surroundings:
    """The live side of one fork; see `dispatcher.LiveFork`.

    Args:
        engine: has replayed all that lies before the fork; what it has not is taken out of it.
        number: of the turn at which the fork begins.
        beyond: who plays on for actors that are not replayed.
        beyond_work: what unrecorded blocking work would have returned; None for no answer.
        paced: the functions of such work that take as long as they did in the recording; others take no time.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        number: int,
        beyond: Beyond | None,
        beyond_work: BeyondWork | None,
        paced: Container[str] = (),
    ) -> None:
        self.silent: dict[str, str] = {}
        """Who was told something that nobody answered, with the first such message."""
        self._engine = engine
        self._system = engine.system
        self._number = number
        self._beyond = beyond
        self._beyond_work = beyond_work
        self._paced = paced
        self._roles: dict[Ref, Role] = {}
        self._awaited = 0
        self._usual: dict[str, int] | None = None
        self.world = RecordedWorld(list(engine.records), self._is_boundary, self._is_waiting)
        self.schedule = RecordedSchedule(self.world.parts)
        self._coming: deque[FromOutside] = deque()

    def cast(self, cells: Sequence[Cell]) -> None:
        """Have those who are not replayed, and have taken no turn so far, play their parts."""
        for cell in cells:
            if cell.props is BOUNDARY and cell.life is Life.STARTING:
                actor = cell.make_instance()
                cell.life = Life.RUNNING
                assert isinstance(actor, BoundaryActor)
                self._role(actor)

    def put_in_flight(self) -> None:
        """Put into the mailboxes what lay in them then, from or for somebody who is not replayed."""
        for turn in self.world.in_flight:
            self.told(turn, turn.cause)()

    def begin(self) -> None:
        """Have time bring what comes of itself."""
        for role in list(self._roles.values()):
            role.cue()
        self._coming = deque(self.world.from_outside)
        self._awaited = len(self._coming)
        self._cue_next()

    def end_part(self, ref: Ref) -> None:
        """Whoever plays this actor leaves what was recorded of it."""
        role = self._roles.get(ref)
        if role is not None:
            role.end()

    def later(self, late_ms: int, call: Callable[[], object]) -> None:
        """Call in so much virtual time, at once for none."""
        if late_ms == 0:
            call()
        else:
            self._system.clock.schedule(self._system.clock.now_ms() + late_ms, call)

    def enter(self, actor: BoundaryActor) -> None:
        """An actor begins that is not replayed; called in its turn."""
        role = self._role(actor)
        role.begin()
        role.cue()

    def run_blocking(self, work: Runnable) -> None:
        """An actor wants to have blocking work done: it comes to what was recorded, or to what `beyond_work` says."""
        if not isinstance(work, Pipe):
            self._system.schedule.execute(work)
            return
        cell, wanted = work.cell, described(work.work)
        outcomes = self.world.outcomes[cell.ref.path]
        same = [each for each in outcomes if each.work == wanted]
        heard = None if cell.current is None else Envelope.wrap(cell.current).message
        # What the work came to is told in words of the turn that began it, such as the version of a plan.
        outcome = next((each for each in same if each.heard == heard), None)
        if outcome is None and self._beyond_work is None:
            outcome = next(iter(same), None)
        if outcome is not None:
            outcomes.remove(outcome)
            due = Due(outcome.turn.sequence, partial(self.told(outcome.turn, cell.sequence), first=True))
            self.later(outcome.delay_ms, lambda: self._system.schedule.execute(due))
        elif self._beyond_work is not None:
            answer, do = self._beyond_work, work.work
            answered = work.with_work(lambda: answer(wanted, do))
            delay_ms = same[0].delay_ms if same else self._usual_delay_ms(wanted.function)
            self.later(delay_ms, lambda: self._system.schedule.execute(answered))
        else:
            self.silent.setdefault(cell.ref.path, f"blocking work {wanted.function}")

    def _usual_delay_ms(self, function: str) -> int:
        """How long such work took in the whole recording, in the median."""
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
        """Who runs next: who did then."""
        return self.schedule.choose(ready)

    def _role(self, actor: BoundaryActor) -> Role:
        ref = actor.context.ref
        turns = self.world.parts.get(ref, [])
        role = self._roles[ref] = Role(
            actor.context,
            turns,
            lambda: self._past(ref),
            self._beyond,
            self._note_silence,
            is_servant=is_servant(ref),
        )
        actor.handle = role.handle
        return role

    def _past(self, ref: Ref) -> list[Heard]:
        """What an actor was told before the fork."""
        earlier = (turn for turn in self._engine.trace if turn.sequence < self._number)
        return [Heard(turn.message, turn.effects) for turn in earlier if turn.recipient == ref]

    def _note_silence(self, path: str, message: Message) -> None:
        self.silent.setdefault(path, message_text(message))

    @property
    def expects_more(self) -> bool:
        """Whether something that was recorded is still to come from outside."""
        return self._awaited > 0

    def _cue_next(self) -> None:
        """One alarm at a time, for the next of all that comes from outside."""
        if self._coming:
            record = self._coming[0]
            due_ms = max(self._system.clock.now_ms(), record.now_ms)
            self._system.clock.schedule(due_ms, lambda: self._comes(record))

    def _comes(self, record: FromOutside) -> None:
        self._system.schedule.execute(Due(record.sequence, lambda: self._bring(record)))
        del self._coming[0]
        self._cue_next()

    def _bring(self, record: FromOutside) -> None:
        self._awaited -= 1
        match record:
            case Killed(ref=ref):
                killer = self.world.killer_of(ref)
                if killer is None or not self._is_replayed(killer):
                    self._system.kill(ref)
            case Spawned():
                self._engine.spawn(record).start()
            case Turn() if not is_servants_own(record, self._is_boundary):
                self.told(record, record.cause)()

    def told(self, turn: Turn, cause: int | None) -> Tell:
        """The function that tells the message of a recorded turn to its actor, whoever it is then."""

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
    """Nobody is told anything."""
