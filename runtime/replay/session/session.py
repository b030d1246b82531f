"""An interactive replay: forward, back, to a turn or to a message, with access to every actor's state.

A session is positioned after a turn: `turn` is the last turn replayed, `state` the actors' state after it, and
`changes` the changes it made. `Walk` implements the moves between turns.
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
"""The number of steps that are retained. Within these, a step back needs no replay."""


@dataclass(frozen=True, slots=True)
class Step:
    """A replayed turn, its `position` (counted from 1), and its actor's state before and after."""

    position: int
    turn: Turn
    before: State | Absent
    after: State | Absent

    @property
    def effects(self) -> tuple[Effect, ...]:
        return self.turn.effects

    @property
    def changes(self) -> list[Change]:
        return changes(self.before, self.after)


class Walk:
    """The position of a session, and its moves: forward with the engine, back with the retained steps.

    An actor cannot be rewound, so going back further replays the trace again from its start, and the states of the last
    turns before the target are retained. Other turns are not described, so that a long move is as fast as any replay.

    Args:
        make_engine: creates an engine at the start of the trace.
    """

    def __init__(self, make_engine: Callable[[], ReplayEngine]) -> None:
        self.position = 0
        self.engine = make_engine()
        self.steps: deque[Step] = deque(maxlen=_KEPT)
        """The last steps, some of which may be ahead of the position."""
        self._make_engine = make_engine
        self._replayed = 0
        """The number of turns that the engine has replayed. The session may be positioned before the last of them."""
        self._last_aside = 0
        """The last turn in which other actors than its own changed. Retained steps before that turn lack those changes.
        """
        self._divergences: dict[int, Divergence] = {}

    @property
    def here(self) -> Step | None:
        return next((step for step in reversed(self.steps) if step.position == self.position), None)

    @property
    def divergence(self) -> Divergence | None:
        return self._divergences.get(self.position)

    def forward(self, turns: int = 1) -> Step | None:
        """Replay the next turns, stopping at one that diverges. Returns the last one, or None if there are no more."""
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
        """Move to after the next turn that `is_wanted` accepts. It is called before the turn is replayed."""
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
        """Move back to after the turn at this position, or stay."""
        oldest = self.steps[0].position if self.steps else self._replayed + 1
        if position < oldest - 1 or (position == oldest - 1 and position > 0):
            self._replay_to(position)
        self.position = position

    def restart(self) -> None:
        self.engine = self._make_engine()
        self._replayed = self.position = self._last_aside = 0
        self.steps.clear()

    def ahead(self) -> list[Step]:
        return [step for step in self.steps if step.position > self.position]

    def living(self) -> set[str]:
        self._complete_steps()
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
        self._complete_steps()
        ahead = (step.before for step in self.ahead() if step.turn.recipient.path == path)
        first = next(ahead, None)
        return self._described(path) if first is None else first

    def _step(self) -> Step | None:
        if self.position < self._replayed:
            self.position += 1
            return self.here
        return self._advance()

    def _advance(self) -> Step | None:
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
        asides = self.engine.asides
        try:
            turn = self.engine.advance()
        except DivergenceError as error:
            self._divergences[self._replayed + 1] = error.divergence
        else:
            if turn is None:
                return False
        self._replayed += 1
        self.position = self._replayed
        if self.engine.asides != asides:
            self._last_aside = self._replayed
        return True

    def _pass(self) -> None:
        """Replay the next turn, describing its actor only if the move may stop there: at the end, or if it diverges."""
        if len(self.engine.records.turns(2)) < 2:
            self._advance()
            return
        self.steps.clear()
        self._skip()
        if self.divergence is not None:
            self.go_to(self.position)

    def _replay_to(self, position: int) -> None:
        self.restart()
        while self._replayed < position - _KEPT:
            self._skip()
        while self._replayed < position:
            self._advance()

    def _complete_steps(self) -> None:
        """Move the engine to the session's position, unless the steps contain all changes since."""
        if self.position < self._last_aside:
            self._replay_to(self.position)

    def _described(self, path: str, ref: Ref | None = None) -> State | Absent:
        cell = self.engine.system.cells.find(path)
        if cell is None or cell.instance is None or (ref is not None and cell.ref != ref):
            return Absent.ABSENT
        return describe(cell.instance)


class ReplaySession(Walk):
    """An interactive replay, created by `Replayer.session`. It starts at the beginning of the trace."""

    @property
    def trace(self) -> TraceReader:
        return self.engine.trace

    @property
    def turn(self) -> Turn | None:
        """The last replayed turn, or None at the start."""
        here = self.here
        return None if here is None else here.turn

    @property
    def changes(self) -> list[Change]:
        """The changes of that turn to its actor."""
        here = self.here
        return [] if here is None else here.changes

    @property
    def boundary(self) -> dict[str, str]:
        """The reasons why actors are not replayed, by their paths."""
        return dict(self.engine.boundary)

    def upcoming(self, count: int = 1) -> list[Turn]:
        turns = [step.turn for step in self.ahead()]
        return [*turns, *self.engine.records.turns(max(0, count - len(turns)))][:count]

    def recent(self, count: int = 1) -> list[Turn]:
        """Return the last `count` turns, as far as they are retained."""
        return [step.turn for step in self.steps if step.position <= self.position][-count:]

    def step(self, turns: int = 1) -> Step | None:
        """Replay the next turns, stopping at one that diverges. Returns the last one, or None if there are no more."""
        return self.forward(turns)

    def back(self, turns: int = 1) -> Step | None:
        """Move back by this number of turns. Returns the turn that was replayed last, or None at the start."""
        self.go_to(max(0, self.position - turns))
        return self.here

    def at(self, number: int) -> Step:
        """Replay up to and including the turn with this number, forward or back. Stops at an earlier divergence.

        Raises:
            ReplaySessionError: the trace has no such turn.
        """
        here = self.turn
        if here is not None and here.sequence >= number:
            retained = next((step for step in self.steps if step.turn.sequence == number), None)
            if retained is not None:
                self.position = retained.position
                return retained
            self.restart()
        stopped_at = self.run(lambda turn: turn.sequence >= number)
        if self.divergence is not None and stopped_at is not None:
            return stopped_at
        if stopped_at is None or stopped_at.turn.sequence != number:
            raise ReplaySessionError(f"{self.trace.path} has no turn {number}{self._nearest(stopped_at)}")
        return stopped_at

    def run_until(self, wanted: str | type[Value], **fields: object) -> Step | None:
        """Move to after the next turn that handles a `wanted` message, or diverges. Returns None if there is none.

        `wanted` is a message class, or a text such as `"CheckpointCoordinator <- DeclineCheckpoint"`. `fields` are
        values in the message.

        Raises:
            ReplaySessionError: the text is not a breakpoint.
        """
        return self.run_to([Breakpoint.of(wanted, fields)])

    def run_to(self, breakpoints: list[Breakpoint]) -> Step | None:
        """Replay until after a turn that matches a breakpoint or diverges, or to the end. Returns its step or None."""
        return self.run(lambda turn: any(each.matches(turn, self.actor_class(turn)) for each in breakpoints))

    def state(self, path: str | None = None) -> State:
        """Return the state of the actor at `path` at this position, or of the actor of the last turn.

        Raises:
            ReplaySessionError: no actor lives there at this turn, or it is not replayed.
        """
        if path is None:
            if self.turn is None:
                raise ReplaySessionError("the session is at the beginning, where no actor has taken a turn")
            path = self.turn.recipient.path
        path = path if path.startswith("/") else f"/user/{path}"
        state = self.described(path)
        if isinstance(state, Absent):
            raise ReplaySessionError(self._reason_for_no_turn(path))
        return state

    def actors(self) -> list[str]:
        """Return the paths of the actors that are replayed and alive at this position."""
        return sorted(self.living())

    def why(self) -> list[Cause]:
        """Return the turns that led to this one, nearest first, each with the responsible effect."""
        return [] if self.turn is None else causes_of(self.trace, self.turn)

    def actor_class(self, turn: Turn) -> str | None:
        instance = self.engine.instance(turn.recipient.path)
        return None if instance is None else type(instance).__name__

    def fork(self, *, unrecorded: UnrecordedWork | None = None) -> Fork:
        """Return a system right before the turn of this session, which can continue differently.

        The session keeps its position. After the end of the trace, or at its start, the fork has no message to handle.
        """
        return Fork(self._before_turn(self._make_engine()), unrecorded=unrecorded)

    def _before_turn(self, engine: ReplayEngine) -> ReplayEngine:
        turn = self.turn
        while turn is not None and (upcoming := engine.records.turns(1)) and upcoming[0].sequence < turn.sequence:
            engine.advance()
        return engine

    def _nearest(self, step: Step | None) -> str:
        turns = [turn.sequence for turn in self.recent()]
        if step is None:
            return f": its last one is turn {turns[0]}" if turns else ": it has none"
        return f": the next one is turn {step.turn.sequence}"

    def _reason_for_no_turn(self, path: str) -> str:
        where = f"at turn {self.turn.sequence}" if self.turn is not None else "at the beginning"
        if path in self.engine.boundary:
            return f"{path} is not replayed: {self.engine.boundary[path]}"
        return f"no actor lives at {path} {where}; there are {', '.join(self.actors()) or 'none'}"
