"""The cell whose turn the current thread runs: the sender of its messages, and the owner of its effects.

Other threads can see which cell a thread runs without reading its stack: CPython 3.11 sometimes crashes or hangs if the
frames of a running thread are read from another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell


Run = tuple["Cell"]
"""A cell that runs on a thread. Each run has its own tuple, which identifies the run."""

_OF_THREADS: dict[int, dict[str, Any]] = {}
"""The attributes of `RUNNING` by thread. An ended thread's entry stays until another thread gets its id."""


class _Running(threading.local):
    def __init__(self) -> None:
        # Set for each thread: a default in the class would cost every tell from outside a failed lookup.
        self.cell: Cell | None = None
        self.run: Run | None = None
        _OF_THREADS[threading.get_ident()] = self.__dict__


RUNNING = _Running()
"""`RUNNING.cell` is the cell whose turn this thread runs, None outside a turn; `RUNNING.run` is its run."""


def runs() -> Iterator[tuple[int, Run]]:
    """Yield the runs of all threads that currently run turns, by thread. Called from another thread."""
    for thread, attributes in list(_OF_THREADS.items()):
        run = attributes["run"]
        if run is not None:
            yield thread, run


def record_effect(*effect: object) -> None:
    """Record an effect of the turn that this thread runs, if there is one and turns are recorded.

    After a kill no effect is recorded, because the effects of that turn do not take place.
    """
    cell = RUNNING.cell
    if cell is not None and cell.effects is not None and cell.end_reason is None:
        cell.effects.append(effect)


class _OutsideTurn:
    # A generator with `contextmanager` would take three times as long, for each message that hooks see.
    __slots__ = ("_cell",)

    def __enter__(self) -> None:
        self._cell, RUNNING.cell = RUNNING.cell, None

    def __exit__(self, *_: object) -> None:
        RUNNING.cell = self._cell


def outside_turn() -> _OutsideTurn:
    return _OutsideTurn()
