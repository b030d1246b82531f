"""The engine of a replay: runs the recorded turns again, one by one in order, and compares each with its record.

Every cell is the kernel's own and runs the actor's own code; the trace determines when it runs and what it receives. A
message sent in a turn stays in its recipient's mailbox until the recorded turn that handles it. Inputs from outside of
turns (a client's message, a timer, the outcome of blocking work) come from the trace. An actor that cannot be created
again is a boundary: its turns are skipped, and its messages come from the trace too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ForeignModuleError, TraceError, UnresolvedPropsError
from flykka.runtime.inspection.nondeterminism import Nondeterminism, watched
from flykka.runtime.path import ROOT, USER
from flykka.runtime.replay.delivery import UnknownTypeError, entry_of, error_of
from flykka.runtime.replay.divergence import Divergence, DivergenceError, explain
from flykka.runtime.replay.effect_comparator import DivergenceKind, EffectComparator, EffectDifference
from flykka.runtime.replay.mailbox import ClosedMailbox, Entry, ReplayMailbox
from flykka.runtime.replay.props_resolver import REFUSALS, GraphReader, PropsResolver
from flykka.runtime.replay.system import BOUNDARY, ReplaySystem
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.effects import Spawn
from flykka.runtime.trace.file.order import Prefetch, exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Killed, Record, Spawned, Turn
from flykka.runtime.trace.state.snapshots import IDLE, Snapshot, restore
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.runtime.actor import Actor
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.props import Props

    Ended = tuple[Turn, Cell, EffectDifference | None]


_NOT_WANTED = "not selected"
_GUARDIANS = (ROOT, USER)


_logger = logging.getLogger("flykka.runtime")


class _Replaying(threading.local):
    depth = 0


_replaying = _Replaying()


def _is_logged(_record: logging.LogRecord) -> bool:
    return _replaying.depth == 0


_logger.addFilter(_is_logged)


@contextmanager
def without_logs() -> Iterator[None]:
    """Silence the kernel's log on this thread, because the failures of a replay were logged when they happened."""
    _replaying.depth += 1
    try:
        yield
    finally:
        _replaying.depth -= 1


class ReplayEngine:
    """Replays one trace.

    Args:
        trace: the recorded trace.
        actors: Props by path, for actors that the trace does not describe sufficiently.
        stand_ins: live objects by class name in the trace, for objects that could not be recorded.
        only: the paths of the actors to replay; all others are boundaries. None for all.
        outside: reasons by class name in the trace, for actors that are never replayed.
        modules: the names of modules, besides flykka's own, whose classes and functions the trace may name.
    """

    def __init__(
        self,
        trace: TraceReader,
        actors: Mapping[str, Props] | None = None,
        stand_ins: Mapping[str, object] | None = None,
        *,
        only: frozenset[str] | None = None,
        outside: Mapping[str, str] | None = None,
        modules: Iterable[str] = (),
    ) -> None:
        self.trace = trace
        header = trace.header
        self.system = ReplaySystem(header.system, header.seed, only)
        self.position = 0
        """The sequence number of the last replayed record, 0 at the start."""
        self.turns = 0
        """The number of recorded turns up to `position`, of which `compared` were replayed."""
        self.compared = 0
        self.asides = 0
        """The number of changes of actors that may have happened outside their turns, by a kill or a coroutine that has
        continued.
        """
        self.has_replayed = False
        """True if a turn was replayed of an actor other than the guardians, which every system has."""
        self.boundary: dict[str, str] = {}
        self._modules = tuple(modules)
        self._resolver = PropsResolver(actors, stand_ins, outside, self._modules)
        self._only = only
        self.records = Prefetch(exactly_in_order(trace))
        self._taker = TurnReplayer(self.system, EffectComparator(trace))
        if trace.header.ring is not None:
            try:
                RingStart(self.system, self._resolver, self._leave_out).fill(trace.snapshots(), self._is_replayed)
            except TraceError:
                raise
            except Exception as error:
                description = f"{type(error).__name__}: {error}"
                raise TraceError(f"{trace.path}: its snapshots contradict each other ({description})") from error

    def advance(self) -> Turn | None:
        """Replay up to and including the next recorded turn. Returns that turn, or None if the trace has no more.

        Raises:
            DivergenceError: the turn differs from the record. The next call still continues after it.
        """
        with without_logs(), outside_turn():
            return self._advance()

    def run(self, until: int | None = None) -> None:
        """Replay all turns, or those up to number `until`. Raises the errors of `advance`, after the turn."""
        with without_logs(), outside_turn():
            while (until is None or self._has_one_up_to(until)) and self._advance() is not None:
                pass

    def observe(self, path: str) -> list[Nondeterminism]:
        """Watch the actor at `path` for nondeterminism from here on. Returns the list to which findings are added."""
        return self._taker.observe(path)

    def instance(self, path: str) -> Actor | None:
        cell = self.system.cells.find(path)
        return None if cell is None else cell.instance

    def _has_one_up_to(self, until: int) -> bool:
        coming = self.records.turns()
        return bool(coming) and coming[0].sequence <= until

    def _advance(self) -> Turn | None:
        system = self.system
        for record in self.records:
            system.number = self.position = record.sequence
            try:
                if self._taker.has_more:
                    self._continue_at(record.now_ms)
                if type(record) is Turn:
                    self._take(record)
                    return record
                self._follow(record)
            except (DivergenceError, TraceError):
                raise
            except Exception as error:
                raise self._mismatch_error(record, error) from error
        if self._taker.has_more:
            self._continue_at(system.replay_clock.now_ms())
        return None

    def _mismatch_error(self, record: Record, error: Exception) -> TraceError:
        description = f"{type(error).__name__}: {error}"
        return TraceError(f"{self.trace.path}: record {record.sequence} does not fit those before it ({description})")

    def _follow(self, record: Record) -> None:
        self.system.replay_clock.set(record.now_ms)
        match record:
            case Spawned():
                self.spawn(record)
            case Killed(ref=ref):
                self.asides += 1
                self.system.kill(ref)

    def spawn(self, spawned: Spawned) -> Cell:
        system, ref = self.system, spawned.ref
        parent = system.cells.find(spawned.parent.path)
        if parent is None or not self._is_replayed(ref):
            return self._leave_out(ref, _NOT_WANTED if parent is not None else "its parent does not exist")
        try:
            props = self._resolver.props_of(spawned, system.resolve)
        except UnresolvedPropsError as reason:
            return self._leave_out(ref, str(reason))
        return system.attach(props, ref)

    def _is_replayed(self, ref: Ref) -> bool:
        return self.system.is_replayed(ref.path)

    def _leave_out(self, ref: Ref, reason: str) -> Cell:
        self.boundary.setdefault(ref.path, reason)
        return self.system.attach(BOUNDARY, ref)

    def _take(self, turn: Turn) -> None:
        self.system.replay_clock.set(turn.now_ms)
        self.turns += 1
        cell = self._cell_of(turn)
        if turn.kind == "signal":
            self._record_end_of_boundary(turn)
        if _is_boundary(cell):
            reason = "its recorded messages are replayed instead" if cell.props is BOUNDARY else _NOT_WANTED
            self.boundary.setdefault(cell.ref.path, reason)
            self._skip(turn, cell)
            return
        self.compared += 1
        self.has_replayed = self.has_replayed or cell.ref.path not in _GUARDIANS
        try:
            difference = self._taker.take(turn, cell)
        except UnknownTypeError as error:
            difference = EffectDifference(kind=DivergenceKind.UNKNOWN_TYPE, reason=str(error))
        if difference is not None:
            self._diverge(turn, cell, difference)

    def _continue_at(self, now_ms: int) -> None:
        self.asides += 1
        for turn, cell, difference in self._taker.continue_at(now_ms):
            if difference is not None:
                self._diverge(turn, cell, difference)

    def _diverge(self, turn: Turn, cell: Cell, difference: EffectDifference) -> NoReturn:
        divergence = Divergence.of(difference, str(self.trace.path), turn, self._modules)
        raise DivergenceError(explain(divergence, self.trace, cell))

    def _cell_of(self, turn: Turn) -> Cell:
        system, ref = self.system, turn.recipient
        cell = system.cells.find_incarnation(ref)
        if cell is not None:
            return cell
        cell = system.cells.find(ref.path)
        if cell is not None:
            # The previous actor has ended, but its notification has not arrived yet.
            system.cells.mark_stopped(cell)
        props = self._resolver.given(ref)
        if props is not None and self._is_replayed(ref):
            return system.attach(props, ref)
        return self._leave_out(ref, "the trace does not record how it was created")

    def _skip(self, turn: Turn, cell: Cell) -> None:
        for effect in turn.effects:
            if isinstance(effect, Spawn):
                self._leave_out(effect.ref, _NOT_WANTED if self._only is not None else "its parent is not replayed")
        if turn.failure is not None:
            cell.faults.error = error_of(turn.failure)

    def _record_end_of_boundary(self, turn: Turn) -> None:
        message = turn.message
        if isinstance(message, DeathWatchNotification):
            cell = self.system.cells.find(message.ref.path)
            if cell is not None and cell.ref == message.ref and _is_boundary(cell):
                self.system.cells.mark_stopped(cell)


def _is_boundary(cell: Cell) -> bool:
    return isinstance(cell.mailbox, ClosedMailbox)


class TurnReplayer:
    """Replays turns of one system, one at a time. A turn that is a coroutine may wait while others are replayed."""

    def __init__(self, system: ReplaySystem, comparator: EffectComparator) -> None:
        self._system = system
        self._comparator = comparator
        self.suspended: dict[int, tuple[Turn, Cell]] = {}
        """The turns that are waiting coroutines, by sequence number."""
        self._ended_turns: list[Ended] = []
        self._observed: str | None = None
        self._findings: list[Nondeterminism] = []

    def observe(self, path: str) -> list[Nondeterminism]:
        self._observed, self._findings = path, []
        return self._findings

    @property
    def has_more(self) -> bool:
        return bool(self.suspended or self._ended_turns)

    def take(self, turn: Turn, cell: Cell) -> EffectDifference | None:
        """Replay a turn as recorded, and return its difference, if any. Raises `UnknownTypeError`."""
        replayed_turn, mailbox = self._system.replayed_turn, cell.mailbox
        assert isinstance(mailbox, ReplayMailbox)
        entry = entry_of(turn, cell, self._system.resolve, self._comparator.is_like)
        if entry is None:
            return EffectDifference(
                kind=DivergenceKind.DELIVERY, reason=("the timer that sends this message is not running")
            )
        replayed_turn.begin(turn)
        if cell.ref.path == self._observed:
            with watched(self._findings.append):
                self._play(turn, cell, mailbox, entry)
        else:
            self._play(turn, cell, mailbox, entry)
        if turn.sequence in self.suspended:
            return None
        if replayed_turn.effects is None:
            mailbox.withdraw()
            return EffectDifference(
                kind=DivergenceKind.DELIVERY, reason=f"{cell.ref} cannot receive it: {_state_of(cell)}"
            )
        return self._comparator.difference(turn, cell, replayed_turn.effects, replayed_turn.failure)

    def _play(self, turn: Turn, cell: Cell, mailbox: ReplayMailbox, entry: Entry) -> None:
        mailbox.force(entry)
        if not isinstance(cell, AsyncCell):
            cell.run()
            return
        system = self._system
        if turn.kind != "signal" and cell.current_turn is not None:
            self._ended_turns += self.continue_at(turn.now_ms, cell)
        system.loop.run_within(cell.run)
        system.coroutines.run_coroutines()
        if turn.kind == "signal" and system.replayed_turn.effects is None and cell.current_turn is not None:
            # The signal was handled after the end of the coroutine, which this signal or another one has cancelled.
            cell.current_turn.cancel()
            system.coroutines.run_coroutines()
        signal = mailbox.take(turn) if turn.kind == "signal" and system.replayed_turn.effects is None else None
        if signal is not None:
            mailbox.force(signal)
            system.loop.run_within(cell.run)
            system.coroutines.run_coroutines()
        in_hand = cell.current_turn
        if system.replayed_turn.effects is None and in_hand is not None and in_hand.sequence == turn.sequence:
            system.replayed_turn.suspend()
            self.suspended[turn.sequence] = (turn, cell)

    def continue_at(self, now_ms: int, ended: Cell | None = None) -> list[Ended]:
        """Continue coroutines that have waited for outcomes known at this time. The coroutine of `ended` has ended.

        Returns the ended coroutines, each with its difference.
        """
        system = self._system
        system.coroutines.run_coroutines()
        system.coroutines.pass_time(now_ms, ended)
        ended_turns, self._ended_turns = self._ended_turns, []
        for sequence, effects, failure in system.replayed_turn.take_ended():
            turn, cell = self.suspended.pop(sequence)
            ended_turns.append((turn, cell, self._comparator.difference(turn, cell, effects, failure)))
        return ended_turns


def _state_of(cell: Cell) -> str:
    return f"it is {cell.state.name}" if cell.end_reason is None else f"it has been {cell.end_reason.lower()}"


class RingStart:
    """Fills a system with the actors that lived at the start of a ring trace.

    Args:
        system: contains only the guardians so far.
        resolver: finds the Props.
        leave_out: makes an actor a boundary, for a reason.
    """

    def __init__(self, system: ReplaySystem, resolver: PropsResolver, leave_out: Callable[[Ref, str], Cell]) -> None:
        self._system = system
        self._resolver = resolver
        self._leave_out = leave_out

    def fill(self, snapshots: Iterable[Snapshot], is_replayed: Callable[[Ref], bool]) -> None:
        attached = []
        for snapshot in snapshots:
            entry = self._attached(snapshot, is_replayed(snapshot.ref))
            if entry is not None:
                attached.append(entry)
        for cell, reader in attached:
            self._restore(cell, reader)

    def _attached(self, snapshot: Snapshot, is_replayed: bool) -> tuple[Cell, _StateReader] | None:
        system, ref = self._system, snapshot.ref
        is_guardian = snapshot.parent is None or snapshot.parent.path == "/"
        guardian = _begun(system.cells.find(ref.path)) if is_guardian else None
        if snapshot.state is None:
            if guardian is None and is_replayed and snapshot.reason == IDLE:
                # An actor without turns only has to exist for the other actors.
                system.attach(BOUNDARY, ref).state = CellState.RUNNING
            elif guardian is None:
                self._leave_out(ref, snapshot.reason or _NOT_WANTED)
            return None
        if not is_replayed and guardian is None:
            self._leave_out(ref, _NOT_WANTED)
            return None
        try:
            reader = _StateReader(snapshot.state, self._resolver, system)
            if guardian is not None:
                return guardian, reader
            props = self._resolver.given(ref) or self._resolver.checked(reader.graph.read(0))
        except ForeignModuleError:
            raise
        except REFUSALS as reason:
            if guardian is not None:
                raise TraceError(f"the snapshot of {ref} cannot be read: {reason}") from reason
            self._leave_out(ref, str(reason))
            return None
        return system.attach(props, ref), reader

    def _restore(self, cell: Cell, reader: _StateReader) -> None:
        try:
            reader.restore(cell)
        except ForeignModuleError:
            raise
        except REFUSALS as error:
            if cell.parent is None or cell.parent.parent is None:
                raise TraceError(f"the snapshot of {cell.ref} does not fit this version of flykka: {error}") from error
            self._leave_out(cell.ref, f"its snapshot cannot be restored: {error}")


def _begun(guardian: Cell | None) -> Cell | None:
    if guardian is not None and guardian.state is CellState.STARTING:
        guardian.make_instance()
        guardian.state = CellState.RUNNING
    return guardian


class _StateReader:
    """Reads the Props of an actor, and its state once its cell and those of its children exist."""

    def __init__(self, state: bytes, resolver: PropsResolver, system: ReplaySystem) -> None:
        self.graph = GraphReader(state, resolver, system.resolve, self._outside)
        self._system = system
        self._cell: Cell | None = None

    def restore(self, cell: Cell) -> None:
        self._cell = cell
        restore(cell, self.graph.read(1))

    def _outside(self, kind: str) -> object:
        match kind:
            case "context" if self._cell is not None:
                return ActorContext(self._cell)
            case "system":
                return self._system
            case _:
                raise ValueError(f"a snapshot contains a {kind!r}, which is unknown to this version")
