"""Decides whether and when a component of the cluster that has ended is restarted.

At once when it has lived for a while, with a growing pause when it ends again soon, and not at all when that has
happened too often: a broken component is not to be tried for ever, and those who wait for it are to hear of it.

Not here: what the components are, and how one is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

PAUSE_MS_MIN = 100
PAUSE_MS_MAX = 10_000
FORGIVEN_AFTER_MS = 60_000
"""Uptime after which the restart count is reset."""
MAX_ENDS = 10
"""The number of ends in a row, each soon behind its start, after which there is no restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStarted:
    """The component lives."""

    component: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentEnded:
    """The component has ended, of whatever."""

    component: str


ComponentEvent = ComponentStarted | ComponentEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class StartComponent:
    """Restart it, after this delay."""

    component: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUpCluster:
    """It has ended so many times in a row; nothing goes on without it."""

    component: str
    ends: int


ComponentEffect = StartComponent | GiveUpCluster


@dataclass(slots=True)
class _Component:
    started_ms: int
    ends: int = 0


class ComponentRestarts:
    """Counts the ends of each component."""

    def __init__(self) -> None:
        self._components: dict[str, _Component] = {}

    def handle(self, event: ComponentEvent, now: int) -> list[ComponentEffect]:
        match event:
            case ComponentStarted(component=name):
                self._components.setdefault(name, _Component(now)).started_ms = now
                return []
            case ComponentEnded(component=name):
                return [self._on_ended(name, now)]
            case _:
                assert_never(event)

    def check(self) -> None:
        assert all(0 <= component.ends <= MAX_ENDS for component in self._components.values())

    def _on_ended(self, name: str, now: int) -> ComponentEffect:
        component = self._components[name]
        if now - component.started_ms >= FORGIVEN_AFTER_MS:
            component.ends = 0
        component.ends += 1
        if component.ends >= MAX_ENDS:
            return GiveUpCluster(component=name, ends=component.ends)
        again = component.ends - 2
        delay_ms = 0 if again < 0 else min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2**again)
        return StartComponent(component=name, delay_ms=delay_ms)
