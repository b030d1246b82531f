"""The tables and programs generated from a seed, and the modes in which the programs run."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.differential.cases import Case, Mode
from benchmarks.differential.choices import Choices
from benchmarks.differential.programs import Programs
from benchmarks.differential.queries import Queries
from benchmarks.differential.tables import ZONES, Table, draw_tables

QUERIES = 3
PROGRAMS = 2


@dataclass(frozen=True)
class Drawing:
    """A case, and the draws that produced it."""

    kind: type[Queries] | type[Programs]
    choices: tuple[int, ...]
    case: Case


def drawing(kind: type[Queries] | type[Programs], choices: Choices, tables: tuple[Table, ...], zone: str) -> Drawing:
    texts = kind(choices, tables).draw()
    if kind is Queries:
        texts = (f"env.sql({texts[0]!r})", f"spark.sql({texts[1]!r})")
    return Drawing(kind, tuple(choices.recorded), Case(*texts, tables, zone))


def draw(seed: int) -> tuple[list[Drawing], list[Mode]]:
    """Generate programs from a seed, and their modes, which always include parallelism 1 and 4."""
    chance = random.Random(seed)
    tables, zone = draw_tables(chance), chance.choice(ZONES)
    kinds = [Queries] * QUERIES + [Programs] * PROGRAMS
    drawings = [drawing(kind, Choices(chance), tables, zone) for kind in kinds]
    first, second = chance.sample((1, 4), 2)
    match chance.randrange(4):
        case 0:
            return drawings, [Mode(first, restored_at=second)]
        case 1:
            return drawings, [Mode(first, kill=True), Mode(second)]
        case _:
            return drawings, [Mode(first), Mode(second)]
