"""The mailbox that delivers control messages ahead of all others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.wire.message import ControlMessage
from flykka.runtime.mailbox.message_queue import Entry, MessageQueue, message_of

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell


@dataclass(frozen=True, slots=True)
class ControlAwareMailbox:
    """Control messages overtake all others (Akka's UnboundedControlAwareMailbox).

    Their classes derive from `ControlMessage`. Messages between two actors keep their order among the control messages,
    and among the others. Unstashed messages go to the head of their lane.
    """

    def create(self, owner: Cell) -> MessageQueue:
        """Make two empty lanes."""
        return _ControlAwareQueue()


class _ControlAwareQueue:
    __slots__ = ("_control", "_data")

    def __init__(self) -> None:
        self._control: deque[Entry] = deque()
        self._data: deque[Entry] = deque()

    def append(self, entry: Entry, /) -> None:
        self._lane(entry).append(entry)

    def extendleft(self, entries: Iterable[Entry], /) -> None:
        for entry in entries:
            self._lane(entry).appendleft(entry)

    def popleft(self) -> Entry:
        if self._control:
            try:
                return self._control.popleft()
            except IndexError:
                pass  # A kill on another thread was faster; the other lane may have entries still.
        return self._data.popleft()

    def __len__(self) -> int:
        return len(self._control) + len(self._data)

    def _lane(self, entry: Entry) -> deque[Entry]:
        return self._control if isinstance(message_of(entry), ControlMessage) else self._data
