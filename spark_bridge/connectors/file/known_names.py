"""The names of files that were found, kept so that many of them take little room in a checkpoint.

Files are mostly numbered: of names that differ in one number alone, which counts on by one, the first is kept and how
many follow. Nothing is lost by it: a name is known if it was added, and only then.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flykka.spark_bridge.errors import SourceError

_NUMBERS = re.compile("[0-9]+")
_Template = tuple[str, str, int]
"""The text before and behind a number, and its number of digits; 0 where no zeros precede it."""


@dataclass(slots=True)
class _Run:
    template: _Template | None
    first: int
    count: int
    name: str

    def names(self) -> Iterator[str]:
        if self.template is None or self.count == 1:
            yield self.name
            return
        before, behind, width = self.template
        for number in range(self.first, self.first + self.count):
            yield f"{before}{number:0{width}d}{behind}"

    def row(self) -> list[object]:
        if self.template is None or self.count == 1:
            return [self.name]
        before, behind, width = self.template
        return [self.name, (before, behind), width, self.count]


class KnownNames:
    """A set of names that only grows."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._runs: list[_Run] = []
        self._continued_by: dict[tuple[_Template, int], _Run] = {}
        for name in sorted(names):
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> None:
        """Know it from now on. Names that come in order are kept the smallest."""
        if name in self._names:
            return
        self._names.add(name)
        places = list(_places(name))
        for template, number in places:
            run = self._continued_by.pop((template, number), None)
            if run is not None and (run.template is None or run.template == template):
                # One that had any of its numbers to count on by counts on by this.
                run.template, run.first = template, number - run.count
                run.count += 1
                self._continued_by[template, number + 1] = run
                return
        run = _Run(None, 0, 1, name)
        self._runs.append(run)
        for template, number in places:
            self._continued_by[template, number + 1] = run

    def encode(self) -> bytes:
        rows = [run.row() for run in self._runs]
        return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)

    @classmethod
    def decode(cls, data: bytes) -> KnownNames:
        """The names that `encode` wrote; no bytes: none. Raises `SourceError` where the bytes are not from there."""
        if not data:
            return cls()
        try:
            rows = json.loads(zlib.decompress(data))
            return cls(name for row in rows for name in _run(*row).names())
        except (zlib.error, TypeError, ValueError) as damaged:
            raise SourceError(f"the checkpoint does not say which files were read: {damaged}") from damaged


def _places(name: str) -> Iterator[tuple[_Template, int]]:
    """Every number in the name, and what is around it."""
    for found in _NUMBERS.finditer(name):
        digits = found.group()
        width = len(digits) if digits.startswith("0") else 0
        yield (name[: found.start()], name[found.end() :], width), int(digits)


def _run(name: str, template: Sequence[str] = (), width: int = 0, count: int = 1) -> _Run:
    if not template:
        return _Run(None, 0, 1, name)
    before, behind = template
    return _Run((before, behind, width), int(name[len(before) : len(name) - len(behind)]), count, name)
