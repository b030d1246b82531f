"""A replay that one walks through: forward, back, to a turn or to a message, with a look at every actor on the way.

A session stands behind a turn: `turn` is the one that was taken last, `state` what actors know behind it, and `changes`
what it changed. An actor cannot be unwound, so who goes back has the trace replayed again from its beginning; of the
last turns on the way the states are kept, and further steps back cost nothing. Of all other turns nothing is described,
so that a long way is as fast as any replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.trace.replay.breakpoint import Breakpoint
from flykka.runtime.trace.replay.causes import Cause, causes_of
from flykka.runtime.trace.replay.divergence import Divergence, DivergenceError
from flykka.runtime.trace.replay.fork import Fork
from flykka.runtime.trace.replay.role import Beyond
from flykka.runtime.trace.replay.surroundings import BeyondWork
from flykka.runtime.trace.state import Absent, Change, State, changes, describe

if TYPE_CHECKING:
    from flykka.messages.message import Value
    from flykka.messages.ref import Ref
    from flykka.runtime.trace.effects import Effect
    from flykka.runtime.trace.reader import Trace
    from flykka.runtime.trace.records import Turn
    from flykka.runtime.trace.replay.engine import ReplayEngine

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
        """What the turn did."""
        return self.turn.effects

    @property
    def changes(self) -> list[Change]:
        """What the turn changed of its actor. Empty too where the actor is not replayed."""
        return changes(self.before, self.after)


class ReplaySession:
    """Made by `Replayer.session`.

    Args:
        make_engine: makes an engine at the beginning of the trace.
    """

    def __init__(self, make_engine: Callable[[], ReplayEngine]) -> None:
        self._make_engine = make_engine
        self._engine = make_engine()
        self._replayed = 0
        """How many turns the engine has taken; the session may stand before the last of them."""
        self._position = 0
        self._last_aside = 0
        """The last turn on whose way actors changed otherwise: what the steps tell is all there is from here on."""
        self._steps: deque[Step] = deque(maxlen=_KEPT)
        self._divergences: dict[int, Divergence] = {}

    # Where it stands

    @property
    def trace(self) -> Trace:
        """What is replayed."""
        return self._engine.trace

    @property
    def position(self) -> int:
        """How many turns lie behind."""
        return self._position

    @property
    def here(self) -> Step | None:
        """The step that the session stands behind; None at the beginning."""
        return next((step for step in reversed(self._steps) if step.position == self._position), None)

    @property
    def turn(self) -> Turn | None:
        """The turn that was taken last; None at the beginning."""
        here = self.here
        return None if here is None else here.turn

    @property
    def changes(self) -> list[Change]:
        """What that turn changed of its actor."""
        here = self.here
        return [] if here is None else here.changes

    @property
    def divergence(self) -> Divergence | None:
        """How the turn differs from the record, where it does."""
        return self._divergences.get(self._position)

    @property
    def boundary(self) -> dict[str, str]:
        """Why actors are not replayed, by their paths."""
        return dict(self._engine.boundary)

    def upcoming(self, count: int = 1) -> list[Turn]:
        """The next turns, at most so many."""
        kept = [step.turn for step in self._steps_ahead()]
        return [*kept, *self._engine.records.turns(max(0, count - len(kept)))][:count]

    def recent(self, count: int = 1) -> list[Turn]:
        """The turns behind, as far as they are kept, at most so many."""
        return [step.turn for step in self._steps if step.position <= self._position][-count:]

    # Moving

    def step(self, turns: int = 1) -> Step | None:
        """Take the next turn, or some more up to one that diverges; the last one, or None where there are no more."""
        begun = self._position
        while self._position < begun + turns and (self._position == begun or self.divergence is None):
            before = self._position
            if before < self._replayed or begun + turns - before <= _KEPT:
                self._step()
            else:
                self._pass()
            if self._position == before:
                break
        return self.here if self._position > begun else None

    def back(self, turns: int = 1) -> Step | None:
        """Go back behind an earlier turn; that one, or None at the beginning."""
        self._go_to(max(0, self._position - turns))
        return self.here

    def at(self, number: int) -> Step:
        """Go behind the turn with this number, forward or back; or behind one before it that diverges.

        Raises:
            ReplaySessionError: the trace has no such turn.
        """
        here = self.turn
        if here is not None and here.sequence >= number:
            kept = next((step for step in self._steps if step.turn.sequence == number), None)
            if kept is not None:
                self._position = kept.position
                return kept
            self._begin_anew()
        found = self._run(lambda turn: turn.sequence >= number)
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
        return self._run(lambda turn: any(each.matches(turn, self.actor_class(turn)) for each in breakpoints))

    # Looking

    def state(self, path: str | None = None) -> State:
        """What the actor at `path` knows here, or the actor of the last turn.

        Raises:
            ReplaySessionError: nobody lives there at this turn, or nobody who is replayed.
        """
        if path is None:
            if self.turn is None:
                raise ReplaySessionError("the session stands at the beginning, where no actor has taken a turn")
            path = self.turn.recipient.path
        path = path if path.startswith("/") else f"/user/{path}"
        state = self._state(path)
        if isinstance(state, Absent):
            raise ReplaySessionError(self._why_nobody(path))
        return state

    def actors(self) -> list[str]:
        """The paths of the actors that are replayed and live here."""
        self._have_steps_tell_all()
        paths = self._engine.system.cells.living_paths()
        living = {path for path in paths if path.startswith("/user/") and self._engine.instance(path) is not None}
        for step in reversed(self._steps_ahead()):
            path = step.turn.recipient.path
            if isinstance(step.before, Absent):
                living.discard(path)
            elif path.startswith("/user/"):
                living.add(path)
        return sorted(living)

    def why(self) -> list[Cause]:
        """The turns that led to this one, the nearest first, each with the effect by which it did."""
        return [] if self.turn is None else causes_of(self.trace, self.turn)

    def actor_class(self, turn: Turn) -> str | None:
        """The class of the actor that takes a turn, where it is replayed."""
        instance = self._engine.instance(turn.recipient.path)
        return None if instance is None else type(instance).__name__

    def fork(self, *, beyond: Beyond | None = None, beyond_work: BeyondWork | None = None) -> Fork:
        """A system right before the turn of this session, with its message in hand, which can go on otherwise.

        The session stays where it is. Behind the end of the trace, or at its beginning, nothing is in hand.
        """
        return Fork(self._before_turn(self._make_engine()), beyond=beyond, beyond_work=beyond_work)

    def _before_turn(self, engine: ReplayEngine) -> ReplayEngine:
        """The engine, gone on to right before the turn of this session."""
        turn = self.turn
        while turn is not None and (upcoming := engine.records.turns(1)) and upcoming[0].sequence < turn.sequence:
            engine.advance()
        return engine

    # How it moves

    def _step(self) -> Step | None:
        if self._position < self._replayed:
            self._position += 1
            return self.here
        return self._advance()

    def _advance(self) -> Step | None:
        """Replay the next turn, and keep what its actor knew before and behind it."""
        upcoming = self._engine.records.turns(1)
        if not upcoming:
            return None
        recipient = upcoming[0].recipient
        before = self._described(recipient.path, recipient)
        if not self._skip():
            return None
        step = Step(self._position, upcoming[0], before, self._described(recipient.path))
        self._steps.append(step)
        return step

    def _skip(self) -> bool:
        """Replay the next turn; False where there is none."""
        asides = self._engine.asides
        try:
            turn = self._engine.advance()
        except DivergenceError as found:
            self._divergences[self._replayed + 1] = found.divergence
        else:
            if turn is None:
                return False
        self._replayed += 1
        self._position = self._replayed
        if self._engine.asides != asides:
            self._last_aside = self._replayed
        return True

    def _run(self, is_wanted: Callable[[Turn], bool]) -> Step | None:
        """Go behind the next turn that is wanted, which is looked at before it is taken."""
        while self._position < self._replayed:
            step = self._step()
            if step is not None and (is_wanted(step.turn) or self.divergence is not None):
                return step
        while upcoming := self._engine.records.turns(1):
            if is_wanted(upcoming[0]):
                return self._advance()
            self._pass()
            if self.divergence is not None:
                return self.here
        return None

    def _pass(self) -> None:
        """Replay the next turn, and look at its actor only where one comes to stand: at the end, or if it diverges."""
        if len(self._engine.records.turns(2)) < 2:
            self._advance()
            return
        self._steps.clear()
        self._skip()
        if self.divergence is not None:
            self._go_to(self._position)

    def _go_to(self, position: int) -> None:
        oldest = self._steps[0].position if self._steps else self._replayed + 1
        if position < oldest - 1 or (position == oldest - 1 and position > 0):
            self._replay_to(position)
        self._position = position

    def _replay_to(self, position: int) -> None:
        """Replay all from the beginning, and keep the last steps."""
        self._begin_anew()
        while self._replayed < position - _KEPT:
            self._skip()
        while self._replayed < position:
            self._advance()

    def _begin_anew(self) -> None:
        self._engine = self._make_engine()
        self._replayed = self._position = self._last_aside = 0
        self._steps.clear()

    def _described(self, path: str, ref: Ref | None = None) -> State | Absent:
        """The state of the actor at `path` where the engine is, if it is the one of `ref`."""
        cell = self._engine.system.cells.find(path)
        if cell is None or cell.instance is None or (ref is not None and cell.ref != ref):
            return Absent.ABSENT
        return describe(cell.instance)

    def _have_steps_tell_all(self) -> None:
        """Have the engine come to where the session is, if the steps between do not tell all that has changed since."""
        if self._position < self._last_aside:
            self._replay_to(self._position)

    def _steps_ahead(self) -> list[Step]:
        return [step for step in self._steps if step.position > self._position]

    def _state(self, path: str) -> State | Absent:
        self._have_steps_tell_all()
        ahead = (step.before for step in self._steps_ahead() if step.turn.recipient.path == path)
        first = next(ahead, None)
        return self._described(path) if first is None else first

    def _nearest(self, found: Step | None) -> str:
        turns = [turn.sequence for turn in self.recent()]
        if found is None:
            return f": its last one is turn {turns[0]}" if turns else ": it has none at all"
        return f": the next one is turn {found.turn.sequence}"

    def _why_nobody(self, path: str) -> str:
        where = f"at turn {self.turn.sequence}" if self.turn is not None else "at the beginning"
        if path in self._engine.boundary:
            return f"{path} is not replayed: {self._engine.boundary[path]}"
        return f"no actor lives at {path} {where}; there are {', '.join(self.actors()) or 'none'}"
