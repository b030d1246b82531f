"""Numbers over the life of a job, in a fixed number of points however long it runs.

A point stands for a step of time. When the points are used up, each pair becomes one and the step is twice as long: a
job of a minute is seen second by second, one of a day by the half hour. To note a number costs the same at any time, on
average over many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from flykka.messages.monitoring.job_details import TimeSeries

POINTS = 120
"""Of one series at most; there are at least half as many once it has been coarsened."""

STEP_MS = 1_000
"""The first step: actors do not report more often."""


class _Points(ABC):
    """Points by step. What `combined` makes of two steps stands for both of them."""

    def __init__(self) -> None:
        self.start_ms: int | None = None
        self.step_ms = STEP_MS
        self.values: list[float | None] = []

    def start_at(self, at_ms: int) -> None:
        """Let the first step begin then, unless it has begun."""
        if self.start_ms is None:
            self.start_ms = at_ms

    def place(self, at_ms: int) -> int:
        """The index of the step of this time. What was noted before the series began belongs to the first."""
        self.start_at(at_ms)
        assert self.start_ms is not None
        while (index := max(0, at_ms - self.start_ms) // self.step_ms) >= POINTS:
            self._coarsen()
        return index

    @abstractmethod
    def combined(self, first: float, second: float) -> float:
        """The value of two steps that become one, or of two numbers that were noted in one step."""

    def note(self, at_ms: int, value: float) -> None:
        index = self.place(at_ms)
        self.values.extend([None] * (index + 1 - len(self.values)))
        known = self.values[index]
        self.values[index] = value if known is None else self.combined(known, value)

    def _coarsen(self) -> None:
        if len(self.values) % 2:
            self.values.append(None)
        pairs = zip(self.values[::2], self.values[1::2], strict=True)
        self.values = [
            second if first is None else first if second is None else self.combined(first, second)
            for first, second in pairs
        ]
        self.step_ms *= 2


class RowCounts(_Points):
    """Counts per step, told as rates per second."""

    def combined(self, first: float, second: float) -> float:
        return first + second

    def per_second(self, until_ms: int) -> TimeSeries:
        """The rates up to `until_ms`. The last step counts only as long as it has lasted, a step without news is 0."""
        if self.start_ms is None:
            return TimeSeries()
        lasted = max(1, until_ms - self.start_ms)
        steps = max(len(self.values), min(POINTS, -(-lasted // self.step_ms)))
        counts = [*self.values, *[None] * (steps - len(self.values))]
        rates = [
            (count or 0) * 1_000 / min(self.step_ms, max(STEP_MS, lasted - index * self.step_ms))
            for index, count in enumerate(counts)
        ]
        return TimeSeries(start_ms=self.start_ms, step_ms=self.step_ms, values=tuple(rates))


class Peaks(_Points):
    """The highest of the numbers that were noted in each step."""

    def combined(self, first: float, second: float) -> float:
        return max(first, second)

    def begins_step(self, at_ms: int) -> bool:
        """True for the first time that is asked about in its step; the step exists from then on."""
        new = self.place(at_ms) + 1 - len(self.values)
        self.values.extend([None] * new)
        return new > 0

    def series(self) -> TimeSeries:
        return TimeSeries(start_ms=self.start_ms or 0, step_ms=self.step_ms, values=tuple(self.values))
