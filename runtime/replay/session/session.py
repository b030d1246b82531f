"""A replay that one walks through: forward, back, to a turn or to a message, with a look at every actor on the way.

A session stands behind a turn: `turn` is the one that was taken last, `state` what actors know behind it, and `changes`
what it changed. How it comes from turn to turn is in `Walk`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.divergence import Divergence, DivergenceError
from flykka.runtime.replay.fork.environment import UnrecordedWork
from flykka.runtime.replay.fork.fork import Fork
from flykka.runtime.replay.session.breakpoint import Breakpoint
from flykka.runtime.replay.session.causes import Cause, causes_of
from flykka.runtime.trace.state.description import Absent, Change, State, changes, describe

if TYPE_CHECKING:
    from flykka.messages.wire.message import Value
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.replay.engine import ReplayEngine
    from flykka.runtime.trace.effects import Effect
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import Turn


_KEPT = 64
"""So many steps are kept: as far as a step back is for nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A turn that was replayed, number `position` from 1 on, with what its actor knew before it and behind it."""

    position: int
    turn: Turn
    before: State | Absent
    after: State | Absent

    @property
    def effects(self) -> tuple[Effect, ...]:
        return self.turn.effects

    @property
    def changes(self) -> list[Change]:
        """The changes of the actor by the turn. Empty too where the actor is not replayed."""
        return changes(self.before, self.after)


class Walk:
    """The place where a session stands, and its ways to others: forward by the engine, back by steps that are kept.

    An actor cannot be unwound, so who goes back further has the trace replayed again from its beginning; of the last
    turns on the way the states are kept. Of all other turns nothing is described, so that a long way is as fast as any
    replay.

    Args:
        make_engine: makes an engine at the beginning of the trace.
    """

    def __init__(self, make_engine: Callable[[], ReplayEngine]) -> None:
        self.position = 0
        """The number of turns that lie behind."""
        self.engine = make_engine()
        self.steps: deque[Step] = deque(maxlen=_KEPT)
        """The last ones, of which some may lie ahead."""
        self._make_engine = make_engine
        self._replayed = 0
        """The number of turns that the engine has taken; the session may stand before the last of them."""
        self._last_aside = 0
        """The last turn on whose way actors changed otherwise: what the steps tell is all there is from here on."""
        self._divergences: dict[int, Divergence] = {}

    @property
    def here(self) -> Step | None:
        """The step behind which one stands; None at the beginning."""
        return next((step for step in reversed(self.steps) if step.position == self.position), None)

    @property
    def divergence(self) -> Divergence | None:
        """The difference of the turn from its record, where there is one."""
        return self._divergences.get(self.position)

    def forward(self, turns: int = 1) -> Step | None:
        """Take the next turn, or some more up to one that diverges; the last one, or None where there are no more."""
        begun = self.position
        while self.position < begun + turns and (self.position == begun or self.divergence is None):
            before = self.position
            if before < self._replayed or begun + turns - before <= _KEPT:
                self._step()
            else:
                self._pass()
            if self.position == before:
                break
        return self.here if self.position > begun else None

    def run(self, is_wanted: Callable[[Turn], bool]) -> Step | None:
        """Go behind the next turn that is wanted, which is looked at before it is taken."""
        while self.position < self._replayed:
            step = self._step()
            if step is not None and (is_wanted(step.turn) or self.divergence is not None):
                return step
        while upcoming := self.engine.records.turns(1):
            if is_wanted(upcoming[0]):
                return self._advance()
            self._pass()
            if self.divergence is not None:
                return self.here
        return None

    def go_to(self, position: int) -> None:
        """Go back behind the turn at this position, or stay."""
        oldest = self.steps[0].position if self.steps else self._replayed + 1
        if position < oldest - 1 or (position == oldest - 1 and position > 0):
            self._replay_to(position)
        self.position = position

    def restart(self) -> None:
        self.engine = self._make_engine()
        self._replayed = self.position = self._last_aside = 0
        self.steps.clear()

    def ahead(self) -> list[Step]:
        """Steps that were taken, and lie ahead."""
        return [step for step in self.steps if step.position > self.position]

    def living(self) -> set[str]:
        """The paths of the actors that are replayed and live here."""
        self._have_steps_tell_all()
        paths = self.engine.system.cells.living_paths()
        living = {path for path in paths if path.startswith("/user/") and self.engine.instance(path) is not None}
        for step in reversed(self.ahead()):
            path = step.turn.recipient.path
            if isinstance(step.before, Absent):
                living.discard(path)
            elif path.startswith("/user/"):
                living.add(path)
        return living

    def described(self, path: str) -> State | Absent:
        """The state of the actor at `path` here."""
        self._have_steps_tell_all()
        ahead = (step.before for step in self.ahead() if step.turn.recipient.path == path)
        first = next(ahead, None)
        return self._described(path) if first is None else first

    def _step(self) -> Step | None:
        if self.position < self._replayed:
            self.position += 1
            return self.here
        return self._advance()

    def _advance(self) -> Step | None:
        """Replay the next turn, and keep what its actor knew before and behind it."""
        upcoming = self.engine.records.turns(1)
        if not upcoming:
            return None
        recipient = upcoming[0].recipient
        before = self._described(recipient.path, recipient)
        if not self._skip():
            return None
        step = Step(self.position, upcoming[0], before, self._described(recipient.path))
        self.steps.append(step)
        return step

    def _skip(self) -> bool:
        """Replay the next turn; False where there is none."""
        asides = self.engine.asides
        try:
            turn = self.engine.advance()
        except DivergenceError as found:
            self._divergences[self._replayed + 1] = found.divergence
        else:
            if turn is None:
                return False
        self._replayed += 1
        self.position = self._replayed
        if self.engine.asides != asides:
            self._last_aside = self._replayed
        return True

    def _pass(self) -> None:
        """Replay the next turn, and look at its actor only where one comes to stand: at the end, or if it diverges."""
        if len(self.engine.records.turns(2)) < 2:
            self._advance()
            return
        self.steps.clear()
        self._skip()
        if self.divergence is not None:
            self.go_to(self.position)

    def _replay_to(self, position: int) -> None:
        """Replay all from the beginning, and keep the last steps."""
        self.restart()
        while self._replayed < position - _KEPT:
            self._skip()
        while self._replayed < position:
            self._advance()

    def _have_steps_tell_all(self) -> None:
        """Have the engine come to where the session is, if the steps between do not tell all that has changed since."""
        if self.position < self._last_aside:
            self._replay_to(self.position)

    def _described(self, path: str, ref: Ref | None = None) -> State | Absent:
        """The state of the actor at `path` where the engine is, if it is the one of `ref`."""
        cell = self.engine.system.cells.find(path)
        if cell is None or cell.instance is None or (ref is not None and cell.ref != ref):
            return Absent.ABSENT
        return describe(cell.instance)


class ReplaySession(Walk):
    """Made by `Replayer.session`; it begins at the beginning of the trace."""

    # Where it stands

    @property
    def trace(self) -> TraceReader:
        return self.engine.trace

    @property
    def turn(self) -> Turn | None:
        """The turn that was taken last; None at the beginning."""
        here = self.here
        return None if here is None else here.turn

    @property
    def changes(self) -> list[Change]:
        """The changes of the actor by that turn."""
        here = self.here
        return [] if here is None else here.changes

    @property
    def boundary(self) -> dict[str, str]:
        """The reasons why actors are not replayed, by their paths."""
        return dict(self.engine.boundary)

    def upcoming(self, count: int = 1) -> list[Turn]:
        kept = [step.turn for step in self.ahead()]
        return [*kept, *self.engine.records.turns(max(0, count - len(kept)))][:count]

    def recent(self, count: int = 1) -> list[Turn]:
        """The turns behind, as far as they are kept, at most so many."""
        return [step.turn for step in self.steps if step.position <= self.position][-count:]

    # Moving

    def step(self, turns: int = 1) -> Step | None:
        """Take the next turn, or some more up to one that diverges; the last one, or None where there are no more."""
        return self.forward(turns)

    def back(self, turns: int = 1) -> Step | None:
        """Go back behind an earlier turn; that one, or None at the beginning."""
        self.go_to(max(0, self.position - turns))
        return self.here

    def at(self, number: int) -> Step:
        """Go behind the turn with this number, forward or back; or behind one before it that diverges.

        Raises:
            ReplaySessionError: the trace has no such turn.
        """
        here = self.turn
        if here is not None and here.sequence >= number:
            kept = next((step for step in self.steps if step.turn.sequence == number), None)
            if kept is not None:
                self.position = kept.position
                return kept
            self.restart()
        found = self.run(lambda turn: turn.sequence >= number)
        if self.divergence is not None and found is not None:
            return found
        if found is None or found.turn.sequence != number:
            raise ReplaySessionError(f"{self.trace.path} has no turn {number}{self._nearest(found)}")
        return found

    def run_until(self, wanted: str | type[Value], **fields: object) -> Step | None:
        """Go behind the next turn that handles such a message, or that diverges; None where there is none to the end.

        `wanted` is a class of messages, or a text such as `"CheckpointCoordinator <- DeclineCheckpoint"`; `fields` are
        values in the message.

        Raises:
            ReplaySessionError: the text is no breakpoint.
        """
        return self.run_to([Breakpoint.of(wanted, fields)])

    def run_to(self, breakpoints: list[Breakpoint]) -> Step | None:
        """Go behind the next turn at one of these, or that diverges; without any of them to the end, which is None."""
        return self.run(lambda turn: any(each.matches(turn, self.actor_class(turn)) for each in breakpoints))

    # Looking

    def state(self, path: str | None = None) -> State:
        """The state of the actor at `path` here, or of the actor of the last turn.

        Raises:
            ReplaySessionError: nobody lives there at this turn, or nobody who is replayed.
        """
        if path is None:
            if self.turn is None:
                raise ReplaySessionError("the session is at the beginning, where no actor has taken a turn")
            path = self.turn.recipient.path
        path = path if path.startswith("/") else f"/user/{path}"
        state = self.described(path)
        if isinstance(state, Absent):
            raise ReplaySessionError(self._why_nobody(path))
        return state

    def actors(self) -> list[str]:
        """The paths of the actors that are replayed and live here."""
        return sorted(self.living())

    def why(self) -> list[Cause]:
        """The turns that led to this one, the nearest first, each with the effect by which it did."""
        return [] if self.turn is None else causes_of(self.trace, self.turn)

    def actor_class(self, turn: Turn) -> str | None:
        instance = self.engine.instance(turn.recipient.path)
        return None if instance is None else type(instance).__name__

    def fork(self, *, unrecorded: UnrecordedWork | None = None) -> Fork:
        """A system right before the turn of this session, with its message in hand, which can go on otherwise.

        The session stays where it is. Behind the end of the trace, or at its beginning, nothing is in hand.
        """
        return Fork(self._before_turn(self._make_engine()), unrecorded=unrecorded)

    def _before_turn(self, engine: ReplayEngine) -> ReplayEngine:
        """The engine, gone on to right before the turn of this session."""
        turn = self.turn
        while turn is not None and (upcoming := engine.records.turns(1)) and upcoming[0].sequence < turn.sequence:
            engine.advance()
        return engine

    def _nearest(self, found: Step | None) -> str:
        turns = [turn.sequence for turn in self.recent()]
        if found is None:
            return f": its last one is turn {turns[0]}" if turns else ": it has none at all"
        return f": the next one is turn {found.turn.sequence}"

    def _why_nobody(self, path: str) -> str:
        where = f"at turn {self.turn.sequence}" if self.turn is not None else "at the beginning"
        if path in self.engine.boundary:
            return f"{path} is not replayed: {self.engine.boundary[path]}"
        return f"no actor lives at {path} {where}; there are {', '.join(self.actors()) or 'none'}"
