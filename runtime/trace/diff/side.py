"""Side of a comparison of two runs: what was read of it, what waits for its counterpart, and what led to what."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from flykka.runtime.trace.diff.value_comparator import ID
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import Record, Turn
from flykka.runtime.trace.text import message_name

LOOKED_AHEAD: Final = 5_000
"""So many records are looked through for one that has come later."""
_REMEMBERED = 100_000
"""So many turns are remembered as causes."""


@dataclass(frozen=True, slots=True)
class RecordedCause:
    """A turn in the chain that led to another: its number, who took it, and what the message was."""

    turn: int
    recipient: str
    message: str


class TraceSide:
    """Side of the comparison: what was read of its run and has no counterpart yet."""

    def __init__(self, records: Iterable[Record], wanted: Callable[[Record], bool]) -> None:
        self._records = iter(records)
        self._wanted = wanted
        self._names: dict[str, str] = {}
        # Of each turn its cause, and what there is to say of it: turns themselves would be a hundred times as large.
        self._turns: dict[int, tuple[int | None, str, str]] = {}
        self.waiting: dict[str, deque[Record]] = {}
        self.ended = False

    def read(self) -> tuple[str, Record] | None:
        """The next record that is compared, with the actor's name in both runs; None at the end."""
        for record in self._records:
            if isinstance(record, Turn):
                self._turns[record.sequence] = (record.cause, record.recipient.path, message_name(record.message))
                if len(self._turns) > _REMEMBERED:
                    del self._turns[next(iter(self._turns))]
            if self._wanted(record):
                return self._name(recipient_of(record).path), record
        self.ended = True
        return None

    def causes(self, record: Record | None) -> tuple[RecordedCause, ...]:
        """The turns that led to a record, the nearest first."""
        chain: list[RecordedCause] = []
        turn = record.cause if isinstance(record, Turn) else None
        while turn is not None and turn in self._turns:
            earlier, recipient, message = self._turns[turn]
            chain.append(RecordedCause(turn, recipient, message))
            turn = earlier
        return tuple(chain)

    def ahead(self, actor: str) -> Iterator[Record]:
        """The records that are still to come of an actor, as far as it is worth looking."""
        yield from self.waiting.get(actor, ())
        for _ in range(LOOKED_AHEAD):
            found = self.read()
            if found is None:
                return
            if found[0] == actor:
                yield found[1]

    def _name(self, path: str) -> str:
        """The path, with the ids in it numbered as they come: in another run they are others."""
        return ID.sub(lambda found: self._names.setdefault(found[0], f"<id {len(self._names) + 1}>"), path)
