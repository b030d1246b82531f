"""Which cell the running thread belongs to at this moment: the sender of what is told, and the owner of the effects."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell


class _Running(threading.local):
    def __init__(self) -> None:
        # For each thread. A default in the class would be found behind a miss, which every tell from outside would pay.
        self.cell: Cell | None = None


RUNNING = _Running()
"""`RUNNING.cell` is the cell whose turn this thread takes, None outside a turn."""


def note(*effect: object) -> None:
    """Note something about the turn that this thread takes, where there is one and turns are recorded.

    Not behind a kill: what a turn has left then is heard by no one, and is no part of the record.
    """
    cell = RUNNING.cell
    if cell is not None and cell.effects is not None and cell.end_reason is None:
        cell.effects.append(effect)


class _OutsideTurn:
    # No generator with `contextmanager`: that takes three times as long, for each message that hooks look at.
    __slots__ = ("_cell",)

    def __enter__(self) -> None:
        self._cell, RUNNING.cell = RUNNING.cell, None

    def __exit__(self, *_: object) -> None:
        RUNNING.cell = self._cell


def outside_turn() -> _OutsideTurn:
    """Code of others that a turn happens to carry (hooks, subscribers, callbacks) does not speak for the actor."""
    return _OutsideTurn()
