"""Axes, along which a number is doubled, and the resulting curves: the cost of a unit at each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FLAT = 1.2
"""The maximum ratio of the cost at the last step to the minimum cost; above it, costs are not linear."""


class AxisName(StrEnum):
    ROWS = "rows"
    KEYS = "keys"
    PARALLELISM = "parallelism"
    TASKS = "tasks"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A number that is doubled, starting with `start`.

    A run has `runs_of` times as many units as its size, and the cost is that of `per` of them, in `unit`: seconds, or
    milliseconds if `in_ms`.
    """

    title: str
    unit: str
    start: int
    runs_of: int = 1
    per: int = 1
    in_ms: bool = False

    def cost(self, size: int, seconds: float) -> float:
        return seconds * (1_000 if self.in_ms else 1) * self.per / (size * self.runs_of)


BATCHES = 6
"""The number of files for the axes rows and keys, one file per batch."""

AXES = {
    AxisName.ROWS: Axis(
        title="rows of a batch", unit="s per million rows", start=31_250, runs_of=BATCHES, per=1_000_000
    ),
    AxisName.KEYS: Axis(
        title="keys, all touched by each batch",
        unit="s per million keys touched",
        start=6_250,
        runs_of=BATCHES,
        per=1_000_000,
    ),
    AxisName.PARALLELISM: Axis(
        title="subtasks, each with rows of its own",
        unit="ms per subtask and batch",
        start=1,
        runs_of=BATCHES,
        in_ms=True,
    ),
    AxisName.TASKS: Axis(title="tasks of a checkpoint", unit="ms of a processor per task", start=64, in_ms=True),
    AxisName.FILES: Axis(title="files that wait", unit="ms per file", start=100, in_ms=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    axis: AxisName
    seconds: Mapping[int, float]

    @property
    def costs(self) -> dict[int, float]:
        return {size: AXES[self.axis].cost(size, seconds) for size, seconds in self.seconds.items()}

    @property
    def rise(self) -> float:
        """The cost at the last step divided by the minimum; 1 if it never rises."""
        costs = list(self.costs.values())
        return costs[-1] / min(costs)

    @property
    def is_flat(self) -> bool:
        return self.rise <= FLAT


def as_json(curves: list[Curve]) -> dict[str, Any]:
    return {
        str(curve.axis): {
            "unit": AXES[curve.axis].unit,
            "steps": [
                {"size": size, "seconds": rounded(curve.seconds[size]), "cost": rounded(cost)}
                for size, cost in curve.costs.items()
            ],
            "rise": round(curve.rise, 2),
            "flat": curve.is_flat,
        }
        for curve in curves
    }


def as_table(curves: list[Curve]) -> str:
    lines = [
        f"The cost of a unit where its number is doubled again and again; flat: it rises by {100 * FLAT - 100:.0f} % at"
        " most.",
        "",
        "| doubled | cost | from the first step to the last | rise | flat |",
        "| --- | --- | --- | ---: | --- |",
    ]
    for curve in curves:
        axis, sizes = AXES[curve.axis], list(curve.costs)
        costs = ", ".join(f"{rounded(cost):g}" for cost in curve.costs.values())
        what = f"{axis.title}, {sizes[0]:,} to {sizes[-1]:,}"
        lines.append(f"| {what} | {axis.unit} | {costs} | {curve.rise:.2f} | {'yes' if curve.is_flat else 'no'} |")
    return "\n".join(lines)


def rounded(figure: float) -> float:
    return float(f"{figure:.3g}")
