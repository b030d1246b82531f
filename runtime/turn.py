"""Which cell the running thread belongs to at this moment: the sender of what is told, and the owner of the effects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.runtime.cell import Cell


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


@contextmanager
def outside_turn() -> Iterator[None]:
    """Code of others that a turn happens to carry (hooks, subscribers, callbacks) does not speak for the actor."""
    cell = RUNNING.cell
    RUNNING.cell = None
    try:
        yield
    finally:
        RUNNING.cell = cell
