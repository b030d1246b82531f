"""Takes one recorded turn again: puts the message into the actor's hands, and has the kernel run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.inspection.nondeterminism import Nondeterminism, watched
from flykka.runtime.replay.delivery import entry_of
from flykka.runtime.replay.effect_differences import DivergenceKind, EffectDifference
from flykka.runtime.replay.mailbox import Entry, ReplayMailbox
from flykka.runtime.trace.records import Turn

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.replay.effect_comparator import EffectComparator
    from flykka.runtime.replay.system import ReplaySystem

    Ended = tuple[Turn, Cell, EffectDifference | None]


class TurnTaker:
    """Takes turns of one system, one at a time. A turn that is a coroutine may wait while others are taken."""

    def __init__(self, system: ReplaySystem, comparator: EffectComparator) -> None:
        self._system = system
        self._comparator = comparator
        self.suspended: dict[int, tuple[Turn, Cell]] = {}
        """Turns that are coroutines and wait, by their numbers."""
        self._ended: list[Ended] = []
        self._observed: str | None = None
        self._findings: list[Nondeterminism] = []

    def observe(self, path: str) -> list[Nondeterminism]:
        """Look out for what the actor at `path` does from here on that no replay can repeat; found in this list."""
        self._observed, self._findings = path, []
        return self._findings

    @property
    def has_more(self) -> bool:
        """Tell whether a coroutine waits, or has ended and nobody knows yet how."""
        return bool(self.suspended or self._ended)

    def take(self, turn: Turn, cell: Cell) -> EffectDifference | None:
        """Take a turn again, as its record has it: in what it differs. Raises `UnknownTypeError`."""
        taken, mailbox = self._system.taken, cell.mailbox
        assert isinstance(mailbox, ReplayMailbox)
        entry = entry_of(turn, cell, self._system, self._comparator.is_like)
        if entry is None:
            return EffectDifference(kind=DivergenceKind.DELIVERY, reason="the timer of this message does not run")
        taken.begin(turn)
        if cell.ref.path == self._observed:
            with watched(self._findings.append):
                self._play(turn, cell, mailbox, entry)
        else:
            self._play(turn, cell, mailbox, entry)
        if turn.sequence in self.suspended:
            return None
        if taken.effects is None:
            mailbox.withdraw()
            return EffectDifference(
                kind=DivergenceKind.DELIVERY, reason=f"{cell.ref} cannot take it: {_state_of(cell)}"
            )
        return self._comparator.difference(turn, cell, taken.effects, taken.failure)

    def _play(self, turn: Turn, cell: Cell, mailbox: ReplayMailbox, entry: Entry) -> None:
        mailbox.force(entry)
        if not isinstance(cell, AsyncCell):
            cell.run()
            return
        system = self._system
        if turn.kind != "signal" and cell.turn_in_hand is not None:
            self._ended += self.go_on(turn.now_ms, cell)
        system.loop.run_within(cell.run)
        system.coroutines.run_coroutines()
        if turn.kind == "signal" and system.taken.effects is None and cell.turn_in_hand is not None:
            # It was obeyed behind the end of the coroutine, which this signal or another one has cancelled.
            cell.turn_in_hand.cancel()
            system.coroutines.run_coroutines()
        held = mailbox.take(turn) if turn.kind == "signal" and system.taken.effects is None else None
        if held is not None:
            mailbox.force(held)
            system.loop.run_within(cell.run)
            system.coroutines.run_coroutines()
        in_hand = cell.turn_in_hand
        if system.taken.effects is None and in_hand is not None and in_hand.sequence == turn.sequence:
            system.taken.suspend()
            self.suspended[turn.sequence] = (turn, cell)

    def go_on(self, now_ms: int, ended: Cell | None = None) -> list[Ended]:
        """Have coroutines go on that have waited for what is known by now; that of `ended` has come to its end.

        Returns those that have come to their end, each with its difference.
        """
        system = self._system
        system.coroutines.run_coroutines()
        system.coroutines.pass_time(now_ms, ended)
        done, self._ended = self._ended, []
        for sequence, effects, failure in system.taken.take_ended():
            turn, cell = self.suspended.pop(sequence)
            done.append((turn, cell, self._comparator.difference(turn, cell, effects, failure)))
        return done


def _state_of(cell: Cell) -> str:
    return f"it is {cell.life.name}" if cell.end_reason is None else f"it has been {cell.end_reason.lower()}"
