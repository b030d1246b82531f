"""Messages put aside by an actor that cannot handle them yet (Akka's Stash)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.runtime.errors import StashError, StashOverflowError
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, Told

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell


class Stash:
    """Stashed messages of an actor, in their order. A restart unstashes them, an end makes them dead letters.

    The thread that pops an entry deals with it, so that each is dealt with once, also where a kill races.
    """

    __slots__ = ("_cell", "_entries")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._entries: deque[Told | Envelope] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def stash(self, entry: Told | Envelope | None) -> None:
        """Append `entry`, the one that is being handled.

        Raises:
            StashError: it is no message, or has been put here already.
            StashOverflowError: there is no room.
        """
        cell, entries = self._cell, self._entries
        if entry is None or isinstance(entry, SignalEnvelope):
            raise StashError(f"{cell.ref} can stash only while it handles a message")
        if not isinstance(entry, Envelope | tuple):
            # The same message may be told twice from outside: as tuples the two entries are distinct.
            entry = cell.current = (entry, None, None)
        if entries and entries[-1] is entry:
            raise StashError(f"{cell.ref} stashes the same {_name(entry)} twice")
        capacity = cell.props.stash_capacity
        if capacity is not None and len(entries) >= capacity:
            raise StashOverflowError(
                f"{cell.ref} cannot stash {_name(entry)}: {capacity} messages are stashed already, "
                "which is the limit set by Props.with_stash_capacity"
            )
        if not cell.may_effect("stash"):
            return  # It was killed during its turn: its message ends with it.
        entries.append(entry.stashed(cell) if isinstance(entry, Envelope) else entry)
        if cell.end_reason is not None:
            self.reject_all()

    def unstash_all(self) -> None:
        """Queue all of them ahead of the messages that wait, in their order."""
        self._cell.mailbox.prepend(list(self._popped()))

    def reject_all(self) -> None:
        """Make all of them dead letters: the actor has ended."""
        for entry in self._popped():
            self._cell.reject(Envelope.wrap(entry))

    def _popped(self) -> Iterator[Told | Envelope]:
        while self._entries:
            try:
                yield self._entries.popleft()
            except IndexError:
                return  # The other thread of a racing kill was faster.


def _name(entry: Told | Envelope) -> str:
    return type(Envelope.wrap(entry).message).__name__
