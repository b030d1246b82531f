"""Feeds events to a machine for the tests of this folder, and checks its invariants after each event."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Effect = TypeVar("Effect")


class Machine(Protocol[Effect]):
    """The interface of the machines under test."""

    # Any, since the events of one call are of many classes: a machine declares its own.
    def handle(self, event: Any, now: int) -> list[Effect]: ...

    def check(self) -> None: ...


def feed(machine: Machine[Effect], *events: Any, now: int = 0) -> list[Effect]:
    """Handle the events in turn, and return all effects."""
    effects: list[Effect] = []
    for event in events:
        effects += machine.handle(event, now)
        machine.check()
    return effects
