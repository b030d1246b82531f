"""Which messages from one actor to another waited longest: from the turn that sent them to the one that took them.

How long a turn took is not recorded. But what is told to a slow actor waits, and so this names it.
"""

from __future__ import annotations

import heapq
from array import array
from dataclasses import dataclass

from flykka.runtime.trace.records import Turn
from flykka.runtime.trace.text import message_name

_REMEMBERED = 1 << 16
"""So many turns are remembered: a message that was sent before waited longer than can be told."""
_SHOWN = 10


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """A message that waited `ms` until turn `turn`, and where it was sent."""

    ms: int
    turn: int
    recipient: str
    message: str
    sent_in: int


class Waits:
    """The longest of all waits, in as little memory for a long trace as for a short one."""

    def __init__(self) -> None:
        self._numbers = array("q", [-1]) * _REMEMBERED
        self._times = array("q", [0]) * _REMEMBERED
        self._longest: list[Wait] = []

    def take(self, turn: Turn) -> None:
        """The next turn, in whatever order."""
        place = turn.sequence % _REMEMBERED
        self._numbers[place], self._times[place] = turn.sequence, turn.now_ms
        # What an actor tells itself has not waited only: it may be what blocking work has come to.
        if turn.cause is None or turn.sender is None or turn.sender == turn.recipient:
            return
        sent = turn.cause % _REMEMBERED
        if self._numbers[sent] != turn.cause:
            return
        ms = turn.now_ms - self._times[sent]
        if len(self._longest) < _SHOWN or ms > self._longest[0].ms:
            wait = Wait(ms, turn.sequence, turn.recipient.path, message_name(turn.message), turn.cause)
            (heapq.heappush if len(self._longest) < _SHOWN else heapq.heapreplace)(self._longest, wait)

    def longest(self) -> list[Wait]:
        """Those that lasted at all, the longest first."""
        return sorted((wait for wait in self._longest if wait.ms > 0), key=lambda wait: (-wait.ms, wait.turn))
