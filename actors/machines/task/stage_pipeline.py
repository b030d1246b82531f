"""Stages in flight, and what goes out behind them.

A Task runs up to `limit` stages at once, and the bridge answers them in their order. What the Task sends down between
two stages (a watermark, a barrier, the end of data) must not overtake the rows of the first: it waits in line here
until every stage before it has finished.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

Purpose = TypeVar("Purpose")
Follower = TypeVar("Follower")


@dataclass(frozen=True, slots=True)
class _Stage(Generic[Purpose]):
    number: int
    purpose: Purpose
    since_ms: int


class StagePipeline(Generic[Purpose, Follower]):
    """A line of stages and followers. `Purpose` says what a stage was started for, `Follower` what waits behind one."""

    __slots__ = ("_in_flight", "_limit", "_line", "_next_stage")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._next_stage = 0
        self._in_flight = 0
        self._line: deque[_Stage[Purpose] | Follower] = deque()

    @property
    def in_flight(self) -> int:
        """Stages that were started and have not finished."""
        return self._in_flight

    @property
    def purposes(self) -> list[Purpose]:
        """The purposes of the stages in flight, the oldest first."""
        return [entry.purpose for entry in self._line if isinstance(entry, _Stage)]

    @property
    def begun(self) -> list[tuple[Purpose, int]]:
        """The stages in flight, the oldest first, each with the time at which it was started."""
        return [(entry.purpose, entry.since_ms) for entry in self._line if isinstance(entry, _Stage)]

    @property
    def has_room(self) -> bool:
        """True if another stage may start."""
        return self._in_flight < self._limit

    def start(self, purpose: Purpose, now: int = 0) -> int:
        """Put a stage in line; its number, from 0. Barriers may exceed the limit: they must not wait for room."""
        number = self._next_stage
        self._next_stage += 1
        self._in_flight += 1
        self._line.append(_Stage(number, purpose, now))
        return number

    def emit_after(self, follower: Follower) -> None:
        """Let `follower` go out when everything before it has finished; take it with `released`."""
        self._line.append(follower)

    def finish(self, number: int) -> Purpose:
        """The stage `number`, the oldest in flight, has finished; what it was for."""
        head = self._line.popleft()
        assert isinstance(head, _Stage), f"stage {number} finished and {head} was waiting"
        assert head.number == number, f"stage {number} finished before stage {head.number}"
        self._in_flight -= 1
        return head.purpose

    def released(self) -> list[Follower]:
        """Followers with no unfinished stage before them, in order; each is given out once."""
        free: list[Follower] = []
        while self._line and not isinstance(self._line[0], _Stage):
            free.append(self._line.popleft())  # type: ignore[arg-type]
        return free

    def check(self) -> None:
        """Assert the invariants: the count agrees with the line, numbers grow, no released follower stays."""
        stages = [entry.number for entry in self._line if isinstance(entry, _Stage)]
        assert len(stages) == self._in_flight
        assert stages == sorted(set(stages))
        assert all(number < self._next_stage for number in stages)
