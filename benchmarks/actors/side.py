"""The two sides of the comparison, and what each is measured at."""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import Protocol

SECONDS_AT_MOST = 120.0
"""A longer run has failed."""


class Discipline(StrEnum):
    """The measured rate, per second."""

    TELL = "tell"
    """Messages told by one thread into a busy actor, until it has handled the last."""
    RELAY = "relay"
    """Turns of an actor that tells itself the next message in each: one effect per turn."""
    ASK = "ask"
    """Round trips of a thread that asks, waits for the reply, and asks again."""
    FAN_OUT = "fan_out"
    """Messages from one actor to 1,000 others and back."""
    RING = "ring"
    """Messages handed on from one actor to the next around a ring of 100."""


class Side(Protocol):
    """A contender: flykka or Pykka."""

    def measure(self, discipline: Discipline, count: int) -> float:
        """The seconds that `count` events of the discipline have taken."""


class Latch:
    """Opens behind `count` arrivals, all of them on one thread at a time."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._open = threading.Event()

    def arrive(self) -> bool:
        """Count one more; True if it was the last."""
        self._left -= 1
        if self._left:
            return False
        self._open.set()
        return True

    def wait(self) -> None:
        """Until it is open."""
        if not self._open.wait(SECONDS_AT_MOST):
            raise TimeoutError(f"{self._left} messages have not arrived within {SECONDS_AT_MOST:.0f} s")


FAN = 1_000
RING = 100
