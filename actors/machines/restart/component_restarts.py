"""Decides whether and when a component of the cluster that has ended is restarted.

The component restarts at once if it has run for a while. If it ends again soon, the delay grows, and after too many
ends it is not restarted: a broken component must not be restarted forever, and its users must get an error.

Not here: which components exist, and how one is started.
"""

from __future__ import annotations

from dataclasses import dataclass

PAUSE_MS_MIN = 100
PAUSE_MS_MAX = 10_000
FORGIVEN_AFTER_MS = 60_000
"""The uptime in ms after which the restart count is reset."""
MAX_ENDS = 10
"""The number of ends in a row, each soon after a start, after which a component is not restarted."""


@dataclass(slots=True)
class _Component:
    started_ms: int
    ends: int = 0


class ComponentRestarts:
    def __init__(self) -> None:
        self._components: dict[str, _Component] = {}

    def started(self, name: str, now: int) -> None:
        self._components.setdefault(name, _Component(now)).started_ms = now

    def ended(self, name: str, now: int) -> int | None:
        """Return the delay (ms) until the restart, or `None` if the component has ended `MAX_ENDS` times in a row."""
        component = self._components[name]
        if now - component.started_ms >= FORGIVEN_AFTER_MS:
            component.ends = 0
        component.ends += 1
        if component.ends >= MAX_ENDS:
            return None
        again = component.ends - 2
        return 0 if again < 0 else min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2**again)
