"""The engine of a replay: takes the recorded turns again, one by one in their order, and compares each with its record.

Every cell is the kernel's own, with the actor's own code in it. Only when it runs, and what is put into its hands, is
the trace's to say. What a turn told lies in its recipient's mailbox until the recorded turn comes that takes it, and
what came from outside of turns (a client's message, a timer, the outcome of blocking work) comes out of the trace.

An actor that cannot be made again is a boundary: its turns are skipped, and what it said comes out of the trace too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import TraceError, UnresolvedPropsError
from flykka.runtime.inspection.nondeterminism import Nondeterminism
from flykka.runtime.path import ROOT, USER
from flykka.runtime.replay.delivery import UnknownTypeError, error_of
from flykka.runtime.replay.divergence import Divergence, DivergenceError
from flykka.runtime.replay.effect_comparator import EffectComparator
from flykka.runtime.replay.effect_differences import DivergenceKind, EffectDifference
from flykka.runtime.replay.explanation import explain
from flykka.runtime.replay.mailbox import DeafMailbox
from flykka.runtime.replay.props_resolver import PropsResolver
from flykka.runtime.replay.ring import RingStart
from flykka.runtime.replay.system import BOUNDARY, ReplaySystem
from flykka.runtime.replay.turn_taker import TurnTaker
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.effects import Spawn
from flykka.runtime.trace.file.order import LookAhead, exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Killed, Record, Spawned, Turn
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.runtime.actor import Actor
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.props import Props

_NOT_WANTED = "not asked for"
_GUARDIANS = (ROOT, USER)


_logger = logging.getLogger("flykka.runtime")


class _Replaying(threading.local):
    depth = 0


_replaying = _Replaying()


def _is_logged(_record: logging.LogRecord) -> bool:
    return _replaying.depth == 0


_logger.addFilter(_is_logged)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the kernel's log silent on this thread: the failures of a replay were logged when they happened."""
    _replaying.depth += 1
    try:
        yield
    finally:
        _replaying.depth -= 1


class ReplayEngine:
    """Replays one trace.

    Args:
        trace: what was recorded.
        actors: Props by path, for actors that the trace does not tell enough about.
        stand_ins: live objects by the name of the class, in the trace, of what could not be written to it.
        only: the paths of the actors to be replayed, all others being boundaries; None for all.
        outside: why actors of a class are never replayed, by its name in a trace.
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
        """The sequence number of the last record that was replayed, 0 at the beginning."""
        self.turns = 0
        """The number of turns that lie behind; `compared` of them were taken again."""
        self.compared = 0
        self.asides = 0
        """Number of possible changes of actors outside their turns: one was killed, or a coroutine has gone on."""
        self.has_replayed = False
        """True if any of these were turns of others than the guardians, which every system has."""
        self.boundary: dict[str, str] = {}
        """The reason for which an actor is not replayed, by its path."""
        self._modules = tuple(modules)
        self._resolver = PropsResolver(actors, stand_ins, outside, self._modules)
        self._only = only
        self.records = LookAhead(exactly_in_order(trace))
        """The number of turns that are not replayed yet."""
        self._taker = TurnTaker(self.system, EffectComparator(trace))
        if trace.header.ring is not None:
            try:
                RingStart(self.system, self._resolver, self._leave_out).fill(trace.snapshots(), self._is_wanted)
            except TraceError:
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise TraceError(f"{trace.path}: its snapshots do not fit each other ({what})") from error

    # What one does with it

    def advance(self) -> Turn | None:
        """Replay up to the next recorded turn and take it: that turn, or None where the trace has no more.

        Raises:
            DivergenceError: the turn is not what was recorded. The next call goes on behind it all the same.
        """
        with quiet(), outside_turn():
            return self._advance()

    def run(self, until: int | None = None) -> None:
        """Replay all turns, or those up to number `until`. Raises as `advance`, behind the turn."""
        with quiet(), outside_turn():
            while (until is None or self._has_one_up_to(until)) and self._advance() is not None:
                pass

    def observe(self, path: str) -> list[Nondeterminism]:
        """Look out for what the actor at `path` does from here on that no replay can repeat; found in this list."""
        return self._taker.observe(path)

    def instance(self, path: str) -> Actor | None:
        """The replayed actor at `path`; None where nobody lives there, or a boundary."""
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
                    self._go_on(record.now_ms)
                if type(record) is Turn:
                    self._take(record)
                    return record
                self._follow(record)
            except (DivergenceError, TraceError):
                raise
            except Exception as error:
                raise self._unfitting(record, error) from error
        if self._taker.has_more:
            self._go_on(system.replay_clock.now_ms())
        return None

    def _unfitting(self, record: Record, error: Exception) -> TraceError:
        """The error for a record that may be sound by itself, and cannot follow those before it: the kernel raises."""
        what = f"{type(error).__name__}: {error}"
        return TraceError(f"{self.trace.path}: record {record.sequence} does not fit those before it ({what})")

    # What is no turn

    def _follow(self, record: Record) -> None:
        self.system.replay_clock.set(record.now_ms)
        match record:
            case Spawned():
                self.spawn(record)
            case Killed(ref=ref):
                self.asides += 1
                self.system.kill(ref)

    def spawn(self, spawned: Spawned) -> Cell:
        """The cell, not started yet, of an actor that was spawned from outside; a boundary where it cannot be made."""
        system, ref = self.system, spawned.ref
        parent = system.cells.find(spawned.parent.path)
        if parent is None or not self._is_wanted(ref):
            return self._leave_out(ref, _NOT_WANTED if parent is not None else "its parent is not there")
        try:
            props = self._resolver.props_of(spawned, system.resolve)
        except UnresolvedPropsError as reason:
            return self._leave_out(ref, str(reason))
        return system.attach(props, ref)

    def _is_wanted(self, ref: Ref) -> bool:
        return self.system.is_wanted(ref.path)

    def _leave_out(self, ref: Ref, reason: str) -> Cell:
        self.boundary.setdefault(ref.path, reason)
        return self.system.attach(BOUNDARY, ref)

    # Turns

    def _take(self, turn: Turn) -> None:
        self.system.replay_clock.set(turn.now_ms)
        self.turns += 1
        cell = self._cell_of(turn)
        if turn.kind == "signal":
            self._note_end_of_boundary(turn)
        if _is_boundary(cell):
            reason = "its recorded messages are used instead" if cell.props is BOUNDARY else _NOT_WANTED
            self.boundary.setdefault(cell.ref.path, reason)
            self._skip(turn, cell)
            return
        self.compared += 1
        self.has_replayed = self.has_replayed or cell.ref.path not in _GUARDIANS
        try:
            difference = self._taker.take(turn, cell)
        except UnknownTypeError as unknown:
            difference = EffectDifference(kind=DivergenceKind.UNKNOWN_TYPE, reason=str(unknown))
        if difference is not None:
            self._diverge(turn, cell, difference)

    def _go_on(self, now_ms: int) -> None:
        self.asides += 1
        for turn, cell, difference in self._taker.go_on(now_ms):
            if difference is not None:
                self._diverge(turn, cell, difference)

    def _diverge(self, turn: Turn, cell: Cell, difference: EffectDifference) -> NoReturn:
        divergence = Divergence.of(difference, str(self.trace.path), turn, self._modules)
        raise DivergenceError(explain(divergence, self.trace, cell))

    # Boundaries

    def _cell_of(self, turn: Turn) -> Cell:
        system, ref = self.system, turn.recipient
        cell = system.cells.find_incarnation(ref)
        if cell is not None:
            return cell
        cell = system.cells.find(ref.path)
        if cell is not None:
            # The one before has ended, and only the news of it have not come yet.
            system.cells.mark_stopped(cell)
        props = self._resolver.given(ref)
        if props is not None and self._is_wanted(ref):
            return system.attach(props, ref)
        return self._leave_out(ref, "the trace does not tell how it was made")

    def _skip(self, turn: Turn, cell: Cell) -> None:
        """Keep to what a turn of a boundary has done to the tree."""
        for effect in turn.effects:
            if isinstance(effect, Spawn):
                self._leave_out(effect.ref, _NOT_WANTED if self._only is not None else "its parent is not replayed")
        if turn.failure is not None:
            cell.faults.error = error_of(turn.failure)

    def _note_end_of_boundary(self, turn: Turn) -> None:
        message = turn.message
        if isinstance(message, DeathWatchNotification):
            cell = self.system.cells.find(message.ref.path)
            if cell is not None and cell.ref == message.ref and _is_boundary(cell):
                self.system.cells.mark_stopped(cell)


def _is_boundary(cell: Cell) -> bool:
    return isinstance(cell.mailbox, DeafMailbox)
