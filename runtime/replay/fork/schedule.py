"""Runs the actors of a fork in the recorded order as far as it tells: a fault is all that makes a difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.cell import Cell

if TYPE_CHECKING:
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.trace.records import Turn

_LOOKS_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Due:
    """Something to be done when the turn `sequence` would come."""

    sequence: int
    call: Callable[[], object]

    def run(self) -> None:
        """Do it."""
        self.call()


class RecordedSchedule:
    """Chooses, of the actors that could run next, the one whose next recorded turn was the first.

    Where an actor is in the record is found by what it handles; a message that was not recorded leaves it where it is.

    Args:
        turns: the recorded turns of each actor, in their order.
    """

    def __init__(self, turns: Mapping[Ref, Sequence[Turn]]) -> None:
        self._turns = turns
        self._places: dict[Ref, int] = {}

    def choose(self, ready: Sequence[Runnable]) -> int | None:
        """The place of who is to run; None where the record tells of none of them."""
        first = None
        best = (0, False)
        for place, runnable in enumerate(ready):
            sequence = self._sequence_of(runnable)
            # What is due for a turn comes before its actor runs.
            rank = (sequence or 0, isinstance(runnable, Cell))
            if sequence is not None and (first is None or rank < best):
                first, best = place, rank
        return first

    def taken(self, turn: Turn) -> None:
        """A turn was taken, or is not going to be."""
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
