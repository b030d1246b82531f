"""The house's own sources, read as syntax trees: where they lie and what they import."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = ("messages", "runtime", "actors", "spark_bridge")
SHARED_BY_MACHINES = ("errors", "ignore")
BESIDE_THE_ROOMS = ("flykka", "tests", "examples", "benchmarks", "scripts")


@dataclass(frozen=True)
class Source:
    """One Python file, by its path from the root of the house."""

    path: Path

    def __str__(self) -> str:
        return self.path.as_posix()

    @cached_property
    def text(self) -> str:
        """What is written in it."""
        return (HOUSE / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text, filename=str(self.path))

    @property
    def room(self) -> str:
        """The top folder it lies in."""
        return self.path.parts[0]

    @property
    def is_machine(self) -> bool:
        """What lies in a folder inside the room of the actors, and what all of that shares; the rest are shells."""
        return self.room == "actors" and (len(self.path.parts) > 2 or self.path.stem in SHARED_BY_MACHINES)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and full name of everything imported, inside functions too; `from a import b` gives `a.b`."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from ((node.lineno, alias.name) for alias in names)
                case ast.ImportFrom(module=module, names=names, level=level):
                    base = "." * level + (module or "")
                    yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)


def sources() -> list[Source]:
    """Every Python file of the house, each once: the links inside `flykka` are not followed."""
    found: list[Source] = []
    for folder in (*ROOMS, *BESIDE_THE_ROOMS):
        for parent, _, names in os.walk(HOUSE / folder, followlinks=False):
            found += [Source((Path(parent) / name).relative_to(HOUSE)) for name in names if name.endswith(".py")]
    return sorted(found, key=str)
