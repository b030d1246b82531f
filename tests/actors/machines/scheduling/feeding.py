"""Drives a machine for the tests of this folder: every event is followed by its invariants."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Effect = TypeVar("Effect")


class Machine(Protocol[Effect]):
    """What all machines have in common."""

    # Any, since the events of one call are of many classes: a machine declares its own.
    def handle(self, event: Any, now: int) -> list[Effect]:
        """Take one event."""

    def check(self) -> None:
        """Assert the invariants."""


def feed(machine: Machine[Effect], *events: Any, now: int = 0) -> list[Effect]:
    """Hand in the events in turn; the effects of all of them."""
    effects: list[Effect] = []
    for event in events:
        effects += machine.handle(event, now)
        machine.check()
    return effects
