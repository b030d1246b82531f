"""The cell whose turn the running thread takes: the sender of its messages, and the owner of its effects."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell


class _Running(threading.local):
    def __init__(self) -> None:
        # For each thread: a default in the class would cost every tell from outside a failed look-up.
        self.cell: Cell | None = None


RUNNING = _Running()
"""`RUNNING.cell` is the cell whose turn this thread takes, None outside a turn."""


def note(*effect: object) -> None:
    """Note an effect of the turn that this thread takes, where there is one and turns are recorded.

    After a kill nothing is noted: the effects of that turn do not take place.
    """
    cell = RUNNING.cell
    if cell is not None and cell.effects is not None and cell.end_reason is None:
        cell.effects.append(effect)


class _OutsideTurn:
    # A generator with `contextmanager` takes three times as long, for each message that hooks see.
    __slots__ = ("_cell",)

    def __enter__(self) -> None:
        self._cell, RUNNING.cell = RUNNING.cell, None

    def __exit__(self, *_: object) -> None:
        RUNNING.cell = self._cell


def outside_turn() -> _OutsideTurn:
    """Run hooks, subscribers or callbacks within a turn without making the actor the sender of their messages."""
    return _OutsideTurn()
