"""The state of the current keys: a list for each state, in which each key has a slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class StateColumns:
    """State and timers by slot. The backend assigns a slot to each key, and writes changes back.

    `values` contains a list for each state name, with the value of each slot: a list for a ListState, a dict for a
    MapState (or pairs, as from Arrow), None for a key without value. `touched_ms` contains the times of the last access
    for states with time-to-live: one per slot, a list for a ListState, a dict for a MapState. Timers are sorted and
    distinct, or None for a key without timers. `changed` are the slots to be written back.
    """

    values: dict[str, list[Any]]
    touched_ms: dict[str, list[Any]]
    event_timers: list[list[int] | None]
    processing_timers: list[list[int] | None]
    changed: set[int] = field(default_factory=set)

    @classmethod
    def empty(cls, slots: int, states: Iterable[str], with_time_to_live: Iterable[str] = ()) -> StateColumns:
        return cls(
            values={name: [None] * slots for name in states},
            touched_ms={name: [None] * slots for name in with_time_to_live},
            event_timers=[None] * slots,
            processing_timers=[None] * slots,
        )

    def is_empty(self, slot: int) -> bool:
        """True if the key of a slot has neither state nor timers and must be deleted."""
        if self.event_timers[slot] or self.processing_timers[slot]:
            return False
        return all(values[slot] is None for values in self.values.values())
