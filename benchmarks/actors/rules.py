"""The disciplines with their event counts, and the number of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.actors.side import Discipline


class Contender(StrEnum):
    PYKKA = "pykka"
    FLYKKA = "flykka"
    FLYKKA_RECORDED = "flykka_recorded"
    """The kernel while every turn is recorded to a file with checksums; the time ends when the file is complete."""


@dataclass(frozen=True)
class Heat:
    """A contender in a discipline; `count` is chosen so that a run takes about half a second."""

    contender: Contender
    discipline: Discipline
    count: int


HEATS = (
    Heat(Contender.PYKKA, Discipline.TELL, 100_000),
    Heat(Contender.FLYKKA, Discipline.TELL, 500_000),
    Heat(Contender.PYKKA, Discipline.RELAY, 100_000),
    Heat(Contender.FLYKKA, Discipline.RELAY, 300_000),
    Heat(Contender.FLYKKA_RECORDED, Discipline.RELAY, 150_000),
    Heat(Contender.PYKKA, Discipline.ASK, 10_000),
    Heat(Contender.FLYKKA, Discipline.ASK, 10_000),
    Heat(Contender.PYKKA, Discipline.FAN_OUT, 20_000),
    Heat(Contender.FLYKKA, Discipline.FAN_OUT, 200_000),
    Heat(Contender.PYKKA, Discipline.RING, 20_000),
    Heat(Contender.FLYKKA, Discipline.RING, 200_000),
)
"""The heats in the order of a round, in which the two sides take turns."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """`scale` multiplies all counts. The medians of `repeat` rounds count, after a warm-up round."""

    repeat: int = 5
    scale: float = 1.0
    population: int = 100_000
    plain_population: int = 2_000

    def count(self, heat: Heat) -> int:
        """Return the scaled count, in complete rounds of the fan."""
        return max(2_000, int(heat.count * self.scale) // 2_000 * 2_000)
