"""A fork: a replayed system that continues by itself from some turn, in virtual time, optionally with a fault.

The fork is positioned right before a turn, whose message can be dropped, delayed or duplicated. The replayed actors
continue with their state, their waiting messages, and their timers. Everything else is taken from the record as long as
it fits (`environment`). A message that does not fit gets no reply, and the result reports it. Blocking work is never
done, because a fork must not touch the files of the original run. Its outcome is the recorded one if the same work was
started in the recording, and otherwise the result of `unrecorded`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.durations import Duration, duration_ms
from flykka.runtime.errors import ForkError
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope
from flykka.runtime.path import ROOT, USER
from flykka.runtime.replay.delivery import entry_of
from flykka.runtime.replay.engine import without_logs
from flykka.runtime.replay.fork.environment import ForkEnvironment, Tell, UnrecordedWork, deliver_nothing, put
from flykka.runtime.replay.mailbox import ReplayMailbox
from flykka.runtime.replay.system import BOUNDARY
from flykka.runtime.signals import Create
from flykka.runtime.trace.effects import effect_of
from flykka.runtime.trace.record.forwarding import ForwardingRecorder
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from flykka.runtime.trace.text import message_name
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.recording import Effect, Recorder
    from flykka.runtime.replay.engine import ReplayEngine

_LIMIT = "10m"
_MAX_TURNS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRun:
    """The end of a fork: the number of `turns`, the virtual time, and the reason why it ended.

    `silent` has the actors with a message that got no reply, with the first such message.
    """

    turns: int
    duration_ms: int
    ended: str
    silent: dict[str, str] = field(default_factory=dict)


class Fork:
    """A fork, created by `ReplaySession.fork`. Add faults first, then `run` it once.

    Args:
        engine: has replayed everything before the turn.
        unrecorded: returns the results of unrecorded blocking work; None for no result.
        paced: the functions of such work that take as long as in the recording; others take no time.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        *,
        unrecorded: UnrecordedWork | None = None,
        paced: Container[str] = (),
    ) -> None:
        self.system = engine.system
        upcoming = engine.records.turns(1)
        self.turn: Turn | None = upcoming[0] if upcoming else None
        """The turn whose message is handled next, or None after the last one."""
        self._engine = engine
        self._start_ms = self.turn.now_ms if self.turn is not None else self.system.clock.now_ms()
        self._number = self.turn.sequence if self.turn is not None else engine.position + 1
        self._before: list[Callable[[], object]] = []
        self._copies = [0]
        """The delays of the message's copies in ms: two if it is duplicated, none if it is dropped."""
        self._has_run = False
        self._is_own = False
        self._environment = ForkEnvironment(engine, self._number, unrecorded, paced)
        self._hand = None if self.turn is None else self._claim(self.turn)

    def drop(self) -> None:
        """Drop the message of this turn. Raises `ForkError` if the message cannot be dropped."""
        turn = self._require_message("dropped")
        self._copies = []
        if self._is_own:
            self._environment.recorded.turns_by_actor[turn.recipient].remove(turn)

    def delay(self, duration: Duration) -> None:
        """Delay the message of this turn. Raises `ForkError` if the message cannot be delayed."""
        self._require_message("delayed", is_sent=True)
        late_ms = duration_ms(duration, "delay")
        self._copies = [late_ms for _ in self._copies]

    def duplicate(self) -> None:
        """Deliver the message of this turn twice. Raises `ForkError` if that is impossible."""
        self._require_message("sent twice", is_sent=True)
        self._copies = [*self._copies, *self._copies]

    def crash(self, path: str) -> None:
        """Kill the actor at `path`, and all below it, before the message of this turn is handled.

        Raises `ForkError` if no actor lives there, or if it is a guardian.
        """
        path = path if path.startswith("/") else f"/user/{path}"
        if path in (ROOT, USER):
            raise ForkError(f"{path} cannot die alone: it is the whole system")
        cell = self.system.cells.find(path)
        if cell is None:
            living_paths = ", ".join(self.system.cells.living_paths())
            raise ForkError(f"no actor lives at {path} {self._where()}; there are {living_paths}")
        ref = cell.ref
        self._before.append(lambda: self.system.kill(ref))

    def tell(self, path: str, message: Message) -> None:
        """Send the actor at `path` this message first, without a sender. Raises `ForkError` if no actor lives there."""
        hearer = self.system.cells.find(path)
        if hearer is None:
            raise ForkError(f"no actor lives at {path} {self._where()}")
        mailbox = hearer.mailbox
        self._before.append(lambda: mailbox.put(Envelope(message, None, None)))

    @property
    def expects_more(self) -> bool:
        return self._environment.expects_more

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
        """Continue until no work is left.

        Args:
            limit: the maximum virtual time.
            until: ends the run after the first record for which it returns True.
            at_rest: called whenever the fork is idle and time has to advance; ends the run if it returns True.
            observer: called with every record of the fork.
            recorder: records the turns of the fork; not closed here. A `ForkTraceRecorder` appends them to the original
                records.
            max_turns: the maximum number of turns.

        Raises:
            ForkError: the fork has already run.
        """
        if self._has_run:
            raise ForkError("a fork runs only once: create another one with session.fork()")
        self._has_run = True
        live = ForkRecorder(self._environment.schedule.mark_taken, until, observer, recorder)
        with without_logs(), outside_turn():
            self._go_live(live)
            ended = self._run(live, duration_ms(limit, "limit"), max_turns, at_rest)
        return ForkRun(
            turns=live.turns,
            duration_ms=self.system.clock.now_ms() - self._start_ms,
            ended=ended,
            silent=dict(self._environment.silent),
        )

    def _go_live(self, recorder: ForkRecorder) -> None:
        system = self.system
        system.replay_clock.set(self._start_ms)
        system.go_live(self._environment, recorder, self._number)
        cells = system.cells.living()
        self._environment.stand_in_for_boundaries(cells)
        for cell in cells:
            mailbox = cell.mailbox
            assert isinstance(mailbox, ReplayMailbox)
            mailbox.go_live(None if cell.props.mailbox is None else cell.props.mailbox.create(cell))
            if cell.state is CellState.STARTING and not self._is_begun(cell):
                # The actor was spawned from outside, so no turn has sent it the signal.
                mailbox.control.appendleft(SignalEnvelope(Create(), None, None))
        self._environment.put_in_flight()
        for each in self._before:
            each()
        if self.turn is not None and 0 not in self._copies:
            self._environment.schedule.mark_taken(self.turn)
        for late_ms in self._copies:
            if self._hand is not None:
                self._environment.later(late_ms, partial(self._hand, first=late_ms == 0))
        for cell in cells:
            if cell.mailbox.control or (cell.mailbox.messages and cell.receptive):
                cell.mailbox.wake()
        self._environment.schedule_outside_messages()

    def _run(self, recorder: ForkRecorder, limit_ms: int, max_turns: int, at_rest: Callable[[], bool] | None) -> str:
        schedule, clock = self.system.schedule, self.system.replay_clock
        until_ms = self._start_ms + limit_ms
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
                return "the time has elapsed"
            clock.move_to(due)
        return "the condition is met"

    def _is_begun(self, cell: Cell) -> bool:
        turn = self.turn
        if turn is not None and turn.recipient == cell.ref and isinstance(turn.message, Create):
            return True
        return any(isinstance(envelope.message, Create) for envelope in cell.mailbox.control)

    def _claim(self, turn: Turn) -> Tell:
        if self._environment.recorded.remove_turn(turn):
            return self._environment.redelivery(turn, turn.cause)
        cell = self.system.cells.find(turn.recipient.path)
        if cell is None or cell.ref != turn.recipient or cell.props is BOUNDARY:
            self._is_own = True
            return deliver_nothing  # A boundary actor's messages to itself are scheduled by its stand-in.
        entry = entry_of(turn, cell, self.system.resolve)
        return deliver_nothing if entry is None else partial(put, cell.mailbox, entry)

    def _require_message(self, how: str, *, is_sent: bool = False) -> Turn:
        """Return the turn if its message may be changed in this way. `is_sent` requires another actor as its sender."""
        turn = self.turn
        if turn is None:
            raise ForkError(f"there is no current message {self._where()}")
        if turn.kind == "signal":
            raise ForkError(
                f"turn {turn.sequence} handles the kernel's {message_name(turn.message)}, which cannot be {how}"
            )
        if is_sent and self._is_own:
            raise ForkError(
                f"turn {turn.sequence} handles a message that {turn.recipient.path} sent to itself outside of all "
                f"replayed turns: it cannot be {how}, only dropped"
            )
        return turn

    def _where(self) -> str:
        return f"at turn {self.turn.sequence}" if self.turn is not None else "after the last turn"


class ForkRecorder(ForwardingRecorder):
    """Creates records of a fork's turns at once, for observers.

    Reports its turns to the fork and all records to the `observer`, checks for the last record, and forwards to
    `recorder`.
    """

    def __init__(
        self,
        mark_taken: Callable[[Turn], object],
        until: Callable[[Record], bool] | None,
        observer: Callable[[Record], object] | None,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(recorder)
        self.turns = 0
        self.is_over = False
        self._mark_taken = mark_taken
        self._until = until
        self._observer = observer

    def open(self, *, system: str, seed: int) -> None:
        """Do nothing, because the recording has already started."""

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        self.turns += 1
        super().turn(sequence, now_ms, recipient, envelope, effects, failure)
        turn = Turn(
            sequence=sequence,
            now_ms=now_ms,
            recipient=recipient,
            sender=envelope.sender,
            cause=envelope.cause,
            kind=envelope.kind,
            message=envelope.message,
            effects=tuple(map(effect_of, effects)),
            failure=failure,
        )
        self._mark_taken(turn)
        self._see(turn)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        super().killed(sequence, now_ms, ref)
        self._see(Killed(sequence=sequence, now_ms=now_ms, ref=ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        super().dead_letter(sequence, now_ms, message, sender, recipient, reason)
        self._see(
            DeadLetterRecord(
                sequence=sequence, now_ms=now_ms, message=message, sender=sender, recipient=recipient, reason=reason
            )
        )

    def close(self) -> None:
        """Leave the recorder open, because its owner closes it."""

    def _see(self, record: Record) -> None:
        if self._observer is not None:
            self._observer(record)
        if self._until is not None and self._until(record):
            self.is_over = True
