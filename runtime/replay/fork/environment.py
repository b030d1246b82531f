"""The environment of the actors of a fork: stand-ins for actors that are not replayed, messages from outside, and time.

A fork itself runs the turns of the replayed actors. Three inputs come from the record as long as they fit: messages
from outside of all turns (and from boundaries before the fork), outcomes of blocking work, and the turns of each actor
that is not replayed. A message that does not fit gets no reply, and the fork's result reports it. For blocking work
that was not recorded, the caller's function returns the result.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING

from flykka.messages.kernel.blocking_work import BlockingWork
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.dispatch.dispatcher import Pipe, describe_work
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope
from flykka.runtime.path import ROOT, TEMP, USER, split_path
from flykka.runtime.replay.delivery import UnknownTypeError, error_of, with_live_refs
from flykka.runtime.replay.mailbox import Entry, ReplayMailbox
from flykka.runtime.replay.system import BOUNDARY, BoundaryActor
from flykka.runtime.signals import Create, DeathWatchNotification, Stop, Terminated, Unread
from flykka.runtime.trace import effects
from flykka.runtime.trace.records import Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import message_text

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.context import ActorContext
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.replay.engine import ReplayEngine

UnrecordedWork = Callable[[BlockingWork, Callable[[], object]], object]
"""A function that returns the result of unrecorded blocking work, given its description and the call, or raises."""

Tell = Callable[..., object]
"""A function that delivers a message, with `first=True` ahead of all waiting messages."""
_LOOKS_AHEAD = 16


class ForkEnvironment:
    """The live side of one fork.

    Args:
        engine: has replayed everything before the fork. The remaining records are taken from it.
        number: the number of the turn at which the fork starts.
        unrecorded: returns the results of unrecorded blocking work; None for no result.
        paced: the functions of such work that take as long as in the recording; others take no time.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        number: int,
        unrecorded: UnrecordedWork | None,
        paced: Container[str] = (),
    ) -> None:
        self.silent: dict[str, str] = {}
        """The actors with a message that got no reply, by path, with the first such message."""
        self._engine = engine
        self._system = engine.system
        self._number = number
        self._unrecorded = unrecorded
        self._paced = paced
        self._stand_ins: list[RecordedStandIn] = []
        self._awaited = 0
        self._usual: dict[str, int] | None = None
        self.recorded = RecordedEvents(list(engine.records), self._is_boundary, self._is_waiting)
        self.schedule = RecordedSchedule(self.recorded.turns_by_actor)
        self._upcoming: deque[FromOutside] = deque()

    def stand_in_for_boundaries(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if cell.props is BOUNDARY and cell.state is CellState.STARTING:
                actor = cell.make_instance()
                cell.state = CellState.RUNNING
                assert isinstance(actor, BoundaryActor)
                self._stand_in(actor)

    def put_in_flight(self) -> None:
        for turn in self.recorded.in_flight:
            self.redelivery(turn, turn.cause)()

    def schedule_outside_messages(self) -> None:
        for stand_in in list(self._stand_ins):
            stand_in.schedule_own()
        self._upcoming = deque(self.recorded.from_outside)
        self._awaited = len(self._upcoming)
        self._schedule_next()

    def later(self, late_ms: int, call: Callable[[], object]) -> None:
        if late_ms == 0:
            call()
        else:
            self._system.clock.schedule(self._system.clock.now_ms() + late_ms, call)

    def on_created(self, actor: BoundaryActor) -> None:
        stand_in = self._stand_in(actor)
        stand_in.create()
        stand_in.schedule_own()

    def run_blocking(self, work: Runnable) -> None:
        """Complete blocking work of an actor with the recorded outcome, or with the result of `unrecorded`."""
        if not isinstance(work, Pipe):
            self._system.schedule.execute(work)
            return
        cell, pattern = work.cell, describe_work(work.work)
        outcomes = self.recorded.outcomes[cell.ref.path]
        same = [each for each in outcomes if each.work == pattern]
        received = None if cell.current is None else Envelope.wrap(cell.current).message
        # The outcome refers to the turn that started the work, for example to a version of a plan.
        outcome = next((each for each in same if each.heard == received), None)
        if outcome is None and self._unrecorded is None:
            outcome = next(iter(same), None)
        if outcome is not None:
            outcomes.remove(outcome)
            due = Due(outcome.turn.sequence, partial(self.redelivery(outcome.turn, cell.sequence), first=True))
            self.later(outcome.delay_ms, lambda: self._system.schedule.execute(due))
        elif self._unrecorded is not None:
            answer, do = self._unrecorded, work.work
            answered = work.with_work(lambda: answer(pattern, do))
            delay_ms = same[0].delay_ms if same else self._usual_delay_ms(pattern.function)
            self.later(delay_ms, lambda: self._system.schedule.execute(answered))
        else:
            self.silent.setdefault(cell.ref.path, f"blocking work {pattern.function}")

    def _usual_delay_ms(self, function: str) -> int:
        if function not in self._paced:
            return 0
        if self._usual is None:
            recorded = RecordedEvents(self._engine.trace.records(), lambda _: False, lambda _: False)
            took: defaultdict[str, list[int]] = defaultdict(list)
            for outcome in (each for outcomes in recorded.outcomes.values() for each in outcomes):
                if isinstance(outcome.work, BlockingWork):
                    took[outcome.work.function].append(outcome.delay_ms)
            self._usual = {name: median_low(delays) for name, delays in took.items()}
        return self._usual.get(function, 0)

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        return self.schedule.choose(ready)

    def _stand_in(self, actor: BoundaryActor) -> RecordedStandIn:
        context = actor.context
        stand_in = RecordedStandIn(context, self.recorded.turns_by_actor.get(context.ref, []), self._record_silence)
        self._stand_ins.append(stand_in)
        actor.handle = stand_in.repeat_recorded
        return stand_in

    def _record_silence(self, path: str, message: Message) -> None:
        self.silent.setdefault(path, message_text(message))

    @property
    def expects_more(self) -> bool:
        return self._awaited > 0

    def _schedule_next(self) -> None:
        clock = self._system.clock
        while self._upcoming and self._upcoming[0].now_ms <= clock.now_ms():
            record = self._upcoming.popleft()
            self._system.schedule.execute(Due(record.sequence, partial(self._bring, record)))
        if self._upcoming:
            clock.schedule(self._upcoming[0].now_ms, self._schedule_next)

    def _bring(self, record: FromOutside) -> None:
        self._awaited -= 1
        match record:
            case Killed(ref=ref):
                killer = self.recorded.killer_of(ref)
                if killer is None or not self._is_replayed(killer):
                    self._system.kill(ref)
            case Spawned():
                self._engine.spawn(record).start()
            case Turn():
                self.redelivery(record, record.cause)()

    def redelivery(self, turn: Turn, cause: int | None) -> Tell:
        """Return a function that sends the message of a recorded turn to the actor that then has its path."""

        def tell(*, first: bool = False) -> None:
            system = self._system
            try:
                message = with_live_refs(turn.message, system.resolve)
            except UnknownTypeError as error:
                self.silent.setdefault(turn.recipient.path, f"a message that cannot be read: {error}")
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
    if isinstance(entry, SignalEnvelope):
        mailbox.put_signal(entry)
    elif first and not mailbox.closed:
        mailbox.prepend([entry])
        mailbox.wake()
    else:
        mailbox.put(entry)


def deliver_nothing(*, first: bool = False) -> None:
    """Discard the message."""


@dataclass(frozen=True, slots=True)
class Due:
    sequence: int
    call: Callable[[], object]

    def run(self) -> None:
        self.call()


class RecordedSchedule:
    """Chooses the ready actor whose next recorded turn was the earliest.

    The position of an actor in the record is derived from the messages that it handles. A message that was not recorded
    does not change the position.

    Args:
        turns: the recorded turns of each actor, in order.
    """

    def __init__(self, turns: Mapping[Ref, Sequence[Turn]]) -> None:
        self._turns = turns
        self._places: dict[Ref, int] = {}

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        first = None
        best = (0, False)
        for place, runnable in enumerate(ready):
            sequence = self._sequence_of(runnable)
            # An action that is due for a turn comes before its actor runs.
            rank = (sequence or 0, isinstance(runnable, Cell))
            if sequence is not None and (first is None or rank < best):
                first, best = place, rank
        return first

    def mark_taken(self, turn: Turn) -> None:
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


FromOutside = Turn | Killed | Spawned
"""A record that the fork reproduces at its own time: a message, a stop, a kill, a spawn."""


@dataclass(slots=True)
class Outcome:
    """The outcome of blocking work: `turn` delivered it, `delay_ms` after the turn of `heard` had started the work."""

    work: object
    heard: object
    turn: Turn
    delay_ms: int


class RecordedEvents:
    """The records from the fork on, by kind of input.

    Args:
        records: the records from the turn at which the fork starts.
        is_boundary: returns True if an actor is not replayed, as far as known.
        is_waiting: returns True if the message of a turn is already in its actor's mailbox.
    """

    def __init__(
        self, records: Iterable[Record], is_boundary: Callable[[Ref], bool], is_waiting: Callable[[Turn], bool]
    ) -> None:
        self.from_outside: list[FromOutside] = []
        """The records from outside, in order, without the shutdown of the recorded system."""
        self.in_flight: list[Turn] = []
        """The turns whose message was in flight at the fork, from or to an actor that is not replayed."""
        self.turns_by_actor: defaultdict[Ref, list[Turn]] = defaultdict(list)
        self.outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
        """The outcomes of blocking work that is started from here on, by the path of the actor."""
        self._is_boundary = is_boundary
        self._is_waiting = is_waiting
        self._turns: dict[int, Turn] = {}
        self._pipes: dict[int, list[object]] = {}
        self._killers: dict[str, Ref] = {}
        for record in records:
            if _is_shutdown(record):
                break
            self._sort(record)

    def remove_turn(self, turn: Turn) -> bool:
        if turn in self.in_flight:
            self.in_flight.remove(turn)
        elif turn in self.from_outside:
            self.from_outside.remove(turn)
        else:
            return False
        return True

    def killer_of(self, ref: Ref) -> Ref | None:
        """Return the actor that killed this actor, or an ancestor of it, in a turn. None after a kill from outside."""
        path = ref.path
        while path not in (USER, ROOT):
            if path in self._killers:
                return self._killers[path]
            path, _ = split_path(path)
        return None

    def _sort(self, record: Record) -> None:
        match record:
            case Turn():
                self._turns[record.sequence] = record
                self.turns_by_actor[record.recipient].append(record)
                for effect in record.effects:
                    if isinstance(effect, effects.Kill):
                        self._killers[effect.ref.path] = record.recipient
                self._pipes[record.sequence] = [
                    effect.work for effect in record.effects if isinstance(effect, effects.Pipe)
                ]
                self._sort_turn(record)
            case Killed() | Spawned():
                self.from_outside.append(record)

    def _sort_turn(self, turn: Turn) -> None:
        cause = None if turn.cause is None else self._turns.get(turn.cause)
        if cause is None:
            if self._is_from_outside(turn):
                is_sent = (
                    turn.kind == "message" and turn.cause is not None and turn.sender not in (None, turn.recipient)
                )
                (self.in_flight if is_sent else self.from_outside).append(turn)
        elif self._is_outcome(turn, cause):
            works = self._pipes[cause.sequence]
            delay_ms = max(0, turn.now_ms - cause.now_ms)
            self.outcomes[turn.recipient.path].append(Outcome(works.pop(0), cause.message, turn, delay_ms))

    def _is_from_outside(self, turn: Turn) -> bool:
        """Return True if the fork would not itself produce a turn with no cause, or with a cause before the fork."""
        message, sender = turn.message, turn.sender
        if turn.kind == "signal":
            if isinstance(message, DeathWatchNotification):
                return turn.cause is not None and self._is_boundary(message.ref)
            return isinstance(message, Stop) and not self._is_waiting(turn)
        if turn.kind == "timer" or isinstance(message, Terminated):
            return False
        if turn.cause is None:
            # A message with a sender but no cause comes from the kernel itself.
            return sender is None or sender.path.startswith(TEMP) or self._is_boundary(sender)
        if self._is_boundary(turn.recipient):
            return sender != turn.recipient
        return not self._is_waiting(turn)

    def _is_outcome(self, turn: Turn, cause: Turn) -> bool:
        if turn.kind != "message" or not self._pipes[cause.sequence] or cause.recipient != turn.recipient:
            return False
        sent = (effect.message for effect in cause.effects if isinstance(effect, effects.Send))
        return isinstance(turn.message, effects.Undecoded) or turn.message not in sent


def _is_shutdown(record: Record) -> bool:
    return isinstance(record, Turn) and record.recipient.path in (ROOT, USER) and isinstance(record.message, Stop)


class RecordedStandIn:
    """Repeats the recorded turns of one boundary actor of a fork, for as long as they fit.

    The turns fit while the actor receives the recorded messages, in any order, because in a fork messages of several
    senders may arrive in a different order. A message to itself is delivered after all messages that preceded it in the
    recording, with the recorded delay. A message that was not recorded gets no reply.

    Args:
        context: the context of the actor.
        turns: the recorded turns of the actor from the fork on.
        note_silence: called with a message that gets no reply although the actor has reacted to its class.
    """

    def __init__(
        self, context: ActorContext, turns: Sequence[Turn], note_silence: Callable[[str, Message], None]
    ) -> None:
        self._context = context
        self._record_silence = note_silence
        self._expected: list[Turn] = []
        self._own: deque[Turn] = deque()
        self._due: deque[tuple[Message, Turn]] = deque()
        self._last_handled = (0, 0)
        """The times in ms at which the last message was handled, in the fork and in the recording."""
        self._create = next((turn for turn in turns if isinstance(turn.message, Create)), None)
        self._answered_types = {type(turn.message) for turn in turns if turn.effects}
        for turn in turns:
            if turn.kind != "signal":
                is_own = turn.kind == "timer" or turn.sender == context.ref
                (self._own if is_own else self._expected).append(turn)

    def create(self) -> None:
        if self._create is not None:
            self._play(self._create)

    def schedule_own(self) -> None:
        if not self._own or self._due:
            return
        following = self._own[0]
        if any(turn.sequence < following.sequence for turn in self._expected):
            return
        now_ms, (here_ms, then_ms) = self._context.system.clock.now_ms(), self._last_handled
        due_ms = max(now_ms, here_ms + following.now_ms - then_ms)
        self._own.popleft()
        message = self._own_message(following)
        self._due.append((message, following))
        cell = self._context._cell
        self._context.system.clock.schedule(due_ms, lambda: cell.mailbox.put(Envelope(message, None, None)))

    def _own_message(self, turn: Turn) -> Message:
        """Return the actor's message to itself. Even if it cannot be read, the recorded effects are known."""
        try:
            return with_live_refs(turn.message, self._context.system.resolve)
        except UnknownTypeError:
            return Unread()

    def repeat_recorded(self, message: Message) -> None:
        if self._due and self._due[0][0] is message:
            self._play(self._due.popleft()[1])
            self.schedule_own()
            return
        sender = self._context.sender
        turn = next((turn for turn in self._expected if turn.sender == sender and turn.message == message), None)
        if turn is not None:
            self._expected.remove(turn)
            self._last_handled = (self._context.now(), turn.now_ms)
            self._play(turn)
            self.schedule_own()
        elif type(message) in self._answered_types:
            self._record_silence(self._context.path, message)

    def _play(self, turn: Turn) -> None:
        for effect in turn.effects:
            try:
                self._perform(effect)
            except UnknownTypeError:
                self._record_silence(self._context.path, Unread())
        if turn.failure is not None:
            raise error_of(turn.failure)

    def _perform(self, effect: effects.Effect) -> None:
        context, resolve = self._context, self._context.system.resolve
        match effect:
            case effects.Send(target=target, message=message) | effects.Reply(target=target, message=message):
                resolve(target.path, target.incarnation).tell(with_live_refs(message, resolve))
            case effects.Spawn(ref=ref):
                context.spawn(BOUNDARY, ref.path.rpartition("/")[2])
            case effects.Stop(ref=ref):
                context.stop(resolve(ref.path, ref.incarnation))
            case effects.Watch(ref=ref, message=message):
                context.watch(
                    resolve(ref.path, ref.incarnation), None if message is None else with_live_refs(message, resolve)
                )
            case effects.Unwatch(ref=ref):
                context.unwatch(resolve(ref.path, ref.incarnation))
            case _:
                return  # The actor's timers and blocking work have separate turns, and the other effects are internal.
