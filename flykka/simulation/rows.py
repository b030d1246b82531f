"""The rows of a simulation: small values that record the source rows from which they were derived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flykka.actors.machines.state.key_groups import groups_in, key_group_of, owner
from flykka.messages.state.handles import KeyGroupRange

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its event time (ms). `parts` are its source rows as (number, value). After a window there are several.

    Before an operator with two inputs, `input` is the number of the row's input.
    """

    key: int
    time_ms: int
    parts: tuple[tuple[int, int], ...]
    input: int = 0


Rows = tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """The keyed state of a function: buffered source rows, as (time, number, value), and timers.

    If there are two states for a key, the one with the higher version is valid.
    """

    key: int
    version: int
    parts: tuple[tuple[int, int, int], ...]
    event_timers: tuple[int, ...]
    processing_timers: tuple[int, ...]

    @property
    def is_deleted(self) -> bool:
        return not (self.parts or self.event_timers or self.processing_timers)


KeyStates = tuple[KeyState, ...]
Stored = TypeVar("Stored", Row, KeyState)

ROW_BYTES = 16


def mixed(*numbers: int) -> int:
    """Return a pseudo-random number for these numbers (splitmix64). It is the same in every process."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def size_of(rows: Iterable[Row | KeyState]) -> int:
    return ROW_BYTES * sum(len(row.parts) for row in rows)


def key_group(row: Row | KeyState, max_parallelism: int) -> int:
    return key_group_of(mixed(row.key), max_parallelism)


def within(rows: Iterable[Stored], key_groups: KeyGroupRange, max_parallelism: int) -> tuple[Stored, ...]:
    groups = groups_in(key_groups)
    return tuple(row for row in rows if key_group(row, max_parallelism) in groups)


def split_by_owner(rows: Iterable[Row], max_parallelism: int, subpartitions: int) -> dict[int, list[Row]]:
    """Group the rows by the subtask that owns their key group. Subtasks without rows are left out."""
    parts: dict[int, list[Row]] = {}
    for row in rows:
        parts.setdefault(owner(key_group(row, max_parallelism), max_parallelism, subpartitions), []).append(row)
    return dict(sorted(parts.items()))


def event_times(rows: Sequence[Row]) -> tuple[int, int] | None:
    times = [row.time_ms for row in rows]
    return (min(times), max(times)) if times else None
