"""A replay that one walks through: forward, back, to a turn or to a message, with a look at every actor on the way.

A session stands behind a turn: `turn` is the one that was taken last, `state` what actors know behind it, and `changes`
what it changed. How it comes from turn to turn is in `Walk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.fork.environment import UnrecordedWork
from flykka.runtime.replay.fork.fork import Fork
from flykka.runtime.replay.session.breakpoint import Breakpoint
from flykka.runtime.replay.session.causes import Cause, causes_of
from flykka.runtime.replay.session.walk import Step, Walk
from flykka.runtime.trace.state.description import Absent, Change, State

if TYPE_CHECKING:
    from flykka.messages.wire.message import Value
    from flykka.runtime.replay.engine import ReplayEngine
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import Turn


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
