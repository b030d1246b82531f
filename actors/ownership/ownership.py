"""The port of those that act for a job: whether this process still owns the folders of the job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from flykka.actors.errors import OwnershipLostError

LEASE_MS = 15_000
"""Milliseconds for which an owner without a lock is believed after its last renewal."""

Say = Callable[[str], object]
OnLost = Callable[[OwnershipLostError], object]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if os.name == "posix" else None


def now() -> float:
    """Seconds on a clock that is never set, and that runs on while the machine sleeps if there is one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Ownership(Protocol):
    """The ownership of one folder."""

    @property
    def number(self) -> int:
        """The fencing number: higher than that of every owner before."""

    def start(self, on_lost: OnLost) -> None:
        """Keep the folder from now on, if that takes work; `on_lost` is called on any thread when it is lost."""

    def check(self) -> None:
        """Raise `OwnershipLostError` if another process has taken the folder over; cheap while that cannot be.

        Raises:
            OSError: the record cannot be read, and the lease has run out.
        """

    def confirm(self) -> None:
        """Do the same, and never rely on the clock: a machine that was paused does not know for how long."""

    def release(self, *, unused: bool = False) -> None:
        """Give the folder up in order; an `unused` one is left as it was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The way to wait for a folder that another process owns.

    One that is `patient` waits until that process has ended; others are refused. One that `leads` in its store of high
    availability takes over at once from an owner of that store, which leads no more. `say` is called before it waits.
    `pause` waits for some seconds, or until the waiting is given up, and returns True in that case.
    """

    say: Say
    patient: bool = False
    leads: Callable[[], bool] = lambda: False
    now: Callable[[], float] = now
    pause: Callable[[float], bool] = field(default_factory=lambda: Event().wait)
