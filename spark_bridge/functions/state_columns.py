"""The state of the keys at work: a list for each state, and a slot in it for each key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class StateColumns:
    """State and timers by slot; the backend gives each key a slot, and writes back what has changed.

    `values` holds the value of each slot by the name of the state: a list for a ListState, a dict for a MapState (or
    pairs, as Arrow gives them), None for a key without one. `touched_ms` has, for states with time-to-live, the times
    from which they live: a time for each slot, a list of times for a ListState, a dict of them for a MapState.
    Timers are sorted, each time once; None where a key has none. `changed` are the slots to be written back.
    """

    values: dict[str, list[Any]]
    touched_ms: dict[str, list[Any]]
    event_timers: list[list[int] | None]
    processing_timers: list[list[int] | None]
    changed: set[int] = field(default_factory=set)

    @classmethod
    def empty(cls, slots: int, states: Iterable[str], with_time_to_live: Iterable[str] = ()) -> StateColumns:
        """Return columns of keys that have no state yet."""
        return cls(
            values={name: [None] * slots for name in states},
            touched_ms={name: [None] * slots for name in with_time_to_live},
            event_timers=[None] * slots,
            processing_timers=[None] * slots,
        )

    def is_empty(self, slot: int) -> bool:
        """True if the key of a slot has neither state nor timers: it is to be deleted."""
        if self.event_timers[slot] or self.processing_timers[slot]:
            return False
        return all(values[slot] is None for values in self.values.values())
