"""A fork: a replayed system that goes on by itself from some turn, in virtual time, perhaps with a fault.

It stands right before a turn, whose message is in hand: that one can be dropped, delayed or told twice. The replayed
actors go on with what they knew, with what waited in their mailboxes, and with their timers. Everything else is taken
from the record as long as it fits (`world`, `role`); what does not fit is answered by whoever is named `beyond`, or by
nobody, and then the fork says so.

Blocking work is never done: a fork must not touch the files of the run that it comes from. Its outcome is the recorded
one where the same work was begun then, and else `beyond_work` says what it would have been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flykka.messages.blocking_work import BlockingWork
from flykka.messages.ref import Ref
from flykka.runtime.durations import Duration, duration_ms
from flykka.runtime.envelope import Envelope, SignalEnvelope
from flykka.runtime.errors import ForkError
from flykka.runtime.life import Life
from flykka.runtime.pipe import Pipe, described
from flykka.runtime.promise import PromiseRef
from flykka.runtime.signals import Create
from flykka.runtime.trace.records import Killed, Record, Spawned, Turn
from flykka.runtime.trace.replay.delivery import entry_of
from flykka.runtime.trace.replay.fork_recorder import ForkRecorder
from flykka.runtime.trace.replay.living import UnknownTypeError, living
from flykka.runtime.trace.replay.mailbox import Entry, ReplayMailbox
from flykka.runtime.trace.replay.quiet import quiet
from flykka.runtime.trace.replay.role import Beyond, Heard, Role
from flykka.runtime.trace.replay.schedule import Due, RecordedSchedule
from flykka.runtime.trace.replay.system import BOUNDARY, BoundaryActor
from flykka.runtime.trace.replay.world import FromOutside, RecordedWorld, is_servant, is_servants_own
from flykka.runtime.trace.text import message_name, message_text
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.messages.message import Message
    from flykka.runtime.cell import Cell
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.mailbox import Mailbox
    from flykka.runtime.recording import Recorder
    from flykka.runtime.trace.replay.engine import ReplayEngine

BeyondWork = Callable[[BlockingWork, Callable[[], object]], object]
"""What blocking work returns that was not recorded, told what it is and what would do it; or it raises."""

Tell = Callable[..., object]
"""Tells a message, with `first=True` ahead of all that waits."""

_LIMIT = "10m"
_MAX_TURNS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRun:
    """How far a fork has come: `turns` taken in `duration_ms` of virtual time, and why it ended there.

    `silent` are actors that were told something which nobody answered for them, with the first such message.
    """

    turns: int
    duration_ms: int
    ended: str
    silent: dict[str, str] = field(default_factory=dict)


class Fork:
    """Made by `ReplaySession.fork`. Faults come first, then `run`, once.

    Args:
        engine: has replayed all that lies before the turn.
        beyond: who plays on for actors that are not replayed.
        beyond_work: what unrecorded blocking work would have returned; None for no answer.
    """

    def __init__(
        self, engine: ReplayEngine, *, beyond: Beyond | None = None, beyond_work: BeyondWork | None = None
    ) -> None:
        self.system = engine.system
        upcoming = engine.records.turns(1)
        self.turn: Turn | None = upcoming[0] if upcoming else None
        """The turn whose message is in hand; None behind the last one."""
        self._engine = engine
        self._beyond = beyond
        self._beyond_work = beyond_work
        self._begins_ms = self.turn.now_ms if self.turn is not None else self.system.clock.now_ms()
        self._number = self.turn.sequence if self.turn is not None else engine.position + 1
        self._coming: deque[FromOutside] = deque()
        self._awaited = 0
        self._roles: dict[Ref, Role] = {}
        self._silent: dict[str, str] = {}
        self._before: list[Callable[[], object]] = []
        self._copies = [0]
        """When the message in hand comes, in ms from here; twice where it is told twice, never where it is dropped."""
        self._has_run = False
        rest = list(engine.records)
        self._world = RecordedWorld(rest, self._is_boundary, self._is_waiting)
        self._schedule = RecordedSchedule(self._world.parts)
        self._hand = None if self.turn is None else self._take_in_hand(self.turn)

    # Faults

    def drop(self) -> None:
        """Lose the message in hand. Raises `ForkError` where it is none that can be lost."""
        self._require_message("dropped")
        self._copies = []

    def delay(self, duration: Duration) -> None:
        """Let the message in hand come later. Raises `ForkError` where it is none that can be late."""
        self._require_message("delayed")
        late_ms = duration_ms(duration, "delay")
        self._copies = [late_ms for _ in self._copies]

    def duplicate(self) -> None:
        """Let the message in hand come twice. Raises `ForkError` where it is none that can."""
        self._require_message("told twice")
        self._copies = [*self._copies, *self._copies]

    def crash(self, path: str) -> None:
        """Kill the actor at `path`, and all below it, before the message in hand is handled.

        Raises `ForkError` where nobody lives there.
        """
        path = path if path.startswith("/") else f"/user/{path}"
        cell = self.system.cells.find(path)
        if cell is None:
            living_paths = ", ".join(self.system.cells.living_paths())
            raise ForkError(f"no actor lives at {path} {self._where()}; there are {living_paths}")
        ref = cell.ref
        self._before.append(lambda: self.system.kill(ref))

    def say(self, path: str, target: str, message: Message) -> None:
        """Have the actor at `path`, which is not replayed, tell `target` this first, and leave what was recorded of it.

        Raises `ForkError` where one of them does not live, or where the one at `path` is replayed.
        """
        speaker, hearer = self.system.cells.find(path), self.system.cells.find(target)
        if speaker is None or hearer is None:
            raise ForkError(f"no actor lives at {path if speaker is None else target} {self._where()}")
        if speaker.props is not BOUNDARY:
            raise ForkError(f"{path} is replayed: what it says is its own code's to decide")

        def tell() -> None:
            role = self._roles.get(speaker.ref)
            if role is not None:
                role.end()
            hearer.mailbox.put(Envelope(message, speaker.ref, None))

        self._before.append(tell)

    # Going on

    def run(
        self,
        limit: Duration = _LIMIT,
        *,
        until: Callable[[Record], bool] | None = None,
        at_rest: Callable[[], bool] | None = None,
        observer: Callable[[Record], object] | None = None,
        recorder: Recorder | None = None,
        max_turns: int = _MAX_TURNS,
    ) -> ForkRun:
        """Go on until nothing is left to do.

        Args:
            limit: so much virtual time at most.
            until: ends the run behind the first record of which it is true.
            at_rest: asked whenever only time could bring something; ends the run where it is true.
            observer: told of every record of the fork.
            recorder: where the turns of the fork are recorded; not closed here.
            max_turns: so many turns at most.

        Raises:
            ForkError: the fork has run already.
        """
        if self._has_run:
            raise ForkError("a fork runs once: session.fork() makes another one")
        self._has_run = True
        live = ForkRecorder(self._schedule.taken, until, observer, recorder)
        with quiet(), outside_turn():
            self._go_live(live)
            ended = self._run(live, duration_ms(limit, "limit"), max_turns, at_rest)
        return ForkRun(
            turns=live.turns,
            duration_ms=self.system.clock.now_ms() - self._begins_ms,
            ended=ended,
            silent=dict(self._silent),
        )

    def _go_live(self, recorder: ForkRecorder) -> None:
        system = self.system
        system.replay_clock.set(self._begins_ms)
        system.go_live(self, recorder, self._number)
        cells = system.cells.living()
        for cell in cells:
            if cell.props is BOUNDARY:
                self._cast(cell)
        for cell in cells:
            mailbox = cell.mailbox
            assert isinstance(mailbox, ReplayMailbox)
            mailbox.go_live(None if cell.props.mailbox is None else cell.props.mailbox.create(cell))
            if cell.life is Life.STARTING and not self._is_begun(cell):
                # It was spawned from outside, which no turn has told it.
                mailbox.control.appendleft(SignalEnvelope(Create(), None, None))
        for each in self._before:
            each()
        if self.turn is not None and 0 not in self._copies:
            self._schedule.taken(self.turn)
        for late_ms in self._copies:
            if self._hand is not None:
                self._in(late_ms, partial(self._hand, first=late_ms == 0))
        for cell in cells:
            if cell.mailbox.control or (cell.mailbox.messages and cell.receptive):
                cell.mailbox.wake()
        for role in list(self._roles.values()):
            role.cue()
        self._coming = deque(self._world.from_outside)
        self._awaited = len(self._coming)
        self._cue_next()

    def _run(self, recorder: ForkRecorder, limit_ms: int, max_turns: int, at_rest: Callable[[], bool] | None) -> str:
        schedule, clock = self.system.schedule, self.system.replay_clock
        until_ms = self._begins_ms + limit_ms
        while not recorder.is_over:
            if recorder.turns >= max_turns:
                return f"after {max_turns} turns"
            if schedule.step():
                continue
            due = clock.next_due()
            if due is None:
                return "nothing is left to do"
            if at_rest is not None and at_rest():
                break
            if due > until_ms:
                clock.set(until_ms)
                return "the time is over"
            clock.move_to(due)
        return "what was waited for has come"

    # The world around

    def enter(self, actor: BoundaryActor) -> None:
        """An actor begins that is not replayed; called in its turn."""
        role = self._role(actor)
        role.begin()
        role.cue()

    def run_blocking(self, work: Runnable) -> None:
        """An actor wants to have blocking work done: it comes to what was recorded, or to what `beyond_work` says."""
        if not isinstance(work, Pipe):
            self.system.schedule.execute(work)
            return
        cell, wanted = work.cell, described(work.work)
        outcomes = self._world.outcomes[cell.ref.path]
        same = [each for each in outcomes if each.work == wanted]
        heard = None if cell.current is None else Envelope.of(cell.current).message
        # What the work came to is told in words of the turn that began it, such as the version of a plan.
        outcome = next((each for each in same if each.heard == heard), None)
        if outcome is None and self._beyond_work is None:
            outcome = next(iter(same), None)
        if outcome is not None:
            outcomes.remove(outcome)
            due = Due(outcome.turn.sequence, partial(self._told(outcome.turn, cell.sequence), first=True))
            self._in(outcome.delay_ms, lambda: self.system.schedule.execute(due))
        elif self._beyond_work is not None:
            answer, do = self._beyond_work, work.work
            answered = work.replaced(lambda: answer(wanted, do))
            self._in(same[0].delay_ms if same else 0, lambda: self.system.schedule.execute(answered))
        else:
            self._silent.setdefault(cell.ref.path, f"blocking work {wanted.function}")

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        """Who runs next: who did then."""
        return self._schedule.choose(ready)

    def _cast(self, cell: Cell) -> None:
        """Have the cell of a boundary, which has taken no turn so far, play its part."""
        if cell.life is Life.STARTING:
            actor = cell.make_instance()
            cell.life = Life.RUNNING
            assert isinstance(actor, BoundaryActor)
            self._role(actor)

    def _is_begun(self, cell: Cell) -> bool:
        """Whether a cell that has not started yet is told to by what waits in its mailbox, or is in hand."""
        turn = self.turn
        if turn is not None and turn.recipient == cell.ref and isinstance(turn.message, Create):
            return True
        return any(isinstance(envelope.message, Create) for envelope in cell.mailbox.control)

    def _role(self, actor: BoundaryActor) -> Role:
        ref = actor.context.ref
        turns = self._world.parts.get(ref, [])
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
        self._silent.setdefault(path, message_text(message))

    @property
    def expects_more(self) -> bool:
        """Whether something that was recorded is still to come from outside."""
        return self._awaited > 0

    def _cue_next(self) -> None:
        """One alarm at a time, for the next of all that comes from outside."""
        if self._coming:
            record = self._coming[0]
            due_ms = max(self.system.clock.now_ms(), record.now_ms)
            self.system.clock.schedule(due_ms, lambda: self._comes(record))

    def _comes(self, record: FromOutside) -> None:
        self.system.schedule.execute(Due(record.sequence, lambda: self._bring(record)))
        del self._coming[0]
        self._cue_next()

    def _bring(self, record: FromOutside) -> None:
        self._awaited -= 1
        match record:
            case Killed(ref=ref):
                killer = self._world.killer_of(ref)
                if killer is None or not self._is_replayed(killer):
                    self.system.kill(ref)
            case Spawned():
                self._engine.spawn(record).start()
            case Turn() if not is_servants_own(record, self._is_boundary):
                self._told(record, record.cause)()

    # The message in hand

    def _take_in_hand(self, turn: Turn) -> Tell:
        """Take the message of the turn out of where it waits; the function that tells it."""
        world = self._world.from_outside
        if turn in world:
            world.remove(turn)
            return self._told(turn, turn.cause)
        cell = self.system.cells.find(turn.recipient.path)
        if cell is None or cell.ref != turn.recipient or cell.props is BOUNDARY:
            return _tell_nothing  # The part of a boundary brings it.
        entry = entry_of(turn, cell, self.system)
        return _tell_nothing if entry is None else partial(_put, cell.mailbox, entry)

    def _told(self, turn: Turn, cause: int | None) -> Tell:
        """The function that tells the message of a recorded turn to its actor, whoever it is then."""

        def tell(*, first: bool = False) -> None:
            system = self.system
            try:
                message = living(turn.message, system.resolve)
            except UnknownTypeError as unknown:
                self._silent.setdefault(turn.recipient.path, f"a message that cannot be read: {unknown}")
                return
            sender = None if turn.sender is None else system.resolve(turn.sender.path, turn.sender.incarnation)
            hearer = system.living(turn.recipient)
            asker = sender if isinstance(sender, PromiseRef) else None
            is_signal = turn.kind == "signal"
            entry = SignalEnvelope(message, sender, cause) if is_signal else Envelope(message, sender, cause, asker)
            _put(hearer.actor_inbox, entry, first=first)

        return tell

    def _in(self, late_ms: int, call: Callable[[], object]) -> None:
        if late_ms == 0:
            call()
        else:
            self.system.clock.schedule(self.system.clock.now_ms() + late_ms, call)

    def _require_message(self, how: str) -> None:
        if self.turn is None:
            raise ForkError(f"there is no message in hand {self._where()}")
        if self.turn.kind == "signal":
            name = message_name(self.turn.message)
            raise ForkError(f"turn {self.turn.sequence} handles the kernel's {name}, which cannot be {how}")

    def _where(self) -> str:
        return f"at turn {self.turn.sequence}" if self.turn is not None else "behind the last turn"

    # What was recorded

    def _is_boundary(self, ref: Ref) -> bool:
        cell = self.system.cells.find(ref.path)
        return cell is not None and cell.ref == ref and cell.props is BOUNDARY

    def _is_replayed(self, ref: Ref) -> bool:
        cell = self.system.cells.find(ref.path)
        return cell is not None and cell.props is not BOUNDARY

    def _is_waiting(self, turn: Turn) -> bool:
        cell = self.system.cells.find(turn.recipient.path)
        return cell is not None and isinstance(cell.mailbox, ReplayMailbox) and cell.mailbox.holds(turn)


def _put(mailbox: Mailbox, entry: Entry, *, first: bool = False) -> None:
    """Put a message into a mailbox, `first` ahead of all others."""
    if isinstance(entry, SignalEnvelope):
        mailbox.put_signal(entry)
    elif first and not mailbox.closed:
        mailbox.prepend([entry])
        mailbox.wake()
    else:
        mailbox.put(entry)


def _tell_nothing(*, first: bool = False) -> None:
    """Nobody is told anything."""
