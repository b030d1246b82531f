"""Feeds events to a machine for the tests in this folder, and checks the machine's invariants after each event."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Effect = TypeVar("Effect")


class Machine(Protocol[Effect]):
    # Any, because the events of one call have many classes: each machine declares its own.
    def handle(self, event: Any, now: int) -> list[Effect]: ...

    def check(self) -> None: ...


def feed(machine: Machine[Effect], *events: Any, now: int = 0) -> list[Effect]:
    effects: list[Effect] = []
    for event in events:
        effects += machine.handle(event, now)
        machine.check()
    return effects
