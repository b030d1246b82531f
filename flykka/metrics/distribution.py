"""Distribution: what a histogram has counted, and the figures that Flink has of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

from flykka.messages.tasks.accumulator import HistogramCount


@dataclass(frozen=True, slots=True)
class Distribution:
    """Numbers, the least first, each with how often it came."""

    numbers: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, counts: Iterable[HistogramCount]) -> Distribution:
        ordered = sorted((each.number, each.count) for each in counts)
        return cls(tuple(number for number, _ in ordered), tuple(count for _, count in ordered))

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def sum(self) -> int:
        return sum(number * count for number, count in zip(self.numbers, self.counts, strict=True))

    @property
    def mean(self) -> float:
        return self.sum / self.count if self.count else 0.0

    @property
    def figures(self) -> dict[str, float]:
        """The figures of a histogram by Flink's names for them."""
        median, *above = self.quantiles((0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999))
        mean, each = self.mean, zip(self.numbers, self.counts, strict=True)
        squares = sum(count * (number - mean) ** 2 for number, count in each)
        return {
            "count": self.count,
            "min": self.numbers[0] if self.numbers else 0,
            "max": self.numbers[-1] if self.numbers else 0,
            "mean": mean,
            "stddev": sqrt(squares / self.count) if self.count else 0.0,
            "median": median,
            **dict(zip(("p75", "p90", "p95", "p98", "p99", "p999"), above, strict=True)),
        }

    def quantiles(self, shares: Iterable[float]) -> tuple[int, ...]:
        """The values of these shares (0 to 1) by nearest rank; zeros of nothing."""
        up_to = list(accumulate(self.counts))
        if not up_to:
            return tuple(0 for _ in shares)
        # A hundredth of 0.07 more is no rank more: shares are written in decimals, and counted in binary.
        return tuple(self.numbers[bisect_left(up_to, max(1.0, share * up_to[-1] - 1e-9))] for share in shares)
