"""How the tests of this folder drive a machine: every event is followed by its invariants."""

from __future__ import annotations

from typing import Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Effect = TypeVar("Effect", covariant=True)


class Machine(Protocol[Event, Effect]):
    """What all machines have in common."""

    def handle(self, event: Event, now: int) -> list[Effect]:  # type: ignore[misc]  # a list, covariant in practice
        """Take one event."""

    def check(self) -> None:
        """Assert the invariants."""


E = TypeVar("E")
F = TypeVar("F")


def feed(machine: Machine[E, F], *events: E, now: int = 0) -> list[F]:
    """Hand in the events in turn; the effects of all of them."""
    effects: list[F] = []
    for event in events:
        effects += machine.handle(event, now)
        machine.check()
    return effects
