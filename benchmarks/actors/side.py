"""The two sides of the comparison, and the disciplines."""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import Protocol

SECONDS_AT_MOST = 120.0
"""The maximum duration of a run in seconds; a longer run has failed."""


class Discipline(StrEnum):
    """The disciplines; each one measures a rate per second."""

    TELL = "tell"
    """Messages sent by one thread to a busy actor, until the last one is handled."""
    RELAY = "relay"
    """Turns of an actor that sends the next message to itself, so that each turn has one effect."""
    ASK = "ask"
    """Round trips of a thread that asks and waits for the reply."""
    FAN_OUT = "fan_out"
    """Messages from one actor to 1,000 others and back."""
    RING = "ring"
    """Messages forwarded from one actor to the next around a ring of 100."""


class Side(Protocol):
    def measure(self, discipline: Discipline, count: int) -> float:
        """Return the seconds that `count` events of the discipline took."""


class Latch:
    """Opens after `count` arrivals, which are never concurrent."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._open = threading.Event()

    def arrive(self) -> bool:
        self._left -= 1
        if self._left:
            return False
        self._open.set()
        return True

    def wait(self) -> None:
        if not self._open.wait(SECONDS_AT_MOST):
            raise TimeoutError(f"{self._left} messages have not arrived within {SECONDS_AT_MOST:.0f} s")


FAN = 1_000
RING = 100
