"""The tree that an actor's state is described as: what has changed between two, one part of it, or its lines."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

_PLACE = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_WIDTH = 110
_DEPTH = 4

State: TypeAlias = "bool | int | float | str | list[State] | dict[str, State] | None"
"""A described value. What has a class and attributes is a `Fields`, which is a dict too."""


class Absent(Enum):
    """Marks a place where there is nothing; None would be a value."""

    ABSENT = "nothing"


class Fields(dict[str, "State"]):
    """The attributes of an object, with the name of its class."""

    __slots__ = ("checksum", "kind")

    def __init__(self, kind: str, attributes: Iterable[tuple[str, State]] = ()) -> None:
        super().__init__(attributes)
        self.kind = kind
        self.checksum: int | None = None
        """Kept where the object is immutable, and its description is therefore shared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.kind == other.kind and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # As every dict.


@dataclass(frozen=True, slots=True)
class Change:
    """A change at `path`, which reads as one would write it: `_machine.pending[7].awaiting`."""

    path: str
    before: State | Absent
    after: State | Absent

    def __str__(self) -> str:
        return f"{self.path}: {one_line(self.before)} -> {one_line(self.after)}"


def changes(before: State | Absent, after: State | Absent) -> list[Change]:
    """The differences, each named as far inside as it goes; of two lists what lies between their common ends."""
    return list(_changes("", before, after))


def checksum(state: State) -> int:
    """The CRC32 of a described state; the order within mappings counts, for an actor may act in it."""
    if isinstance(state, Fields) and state.checksum is not None:
        return state.checksum
    if isinstance(state, dict):
        head = f"{{{state.kind}" if isinstance(state, Fields) else "{"
        parts = [f"{name!r}:{checksum(value)}" for name, value in state.items()]
        return zlib.crc32("\n".join((head, *parts)).encode(errors="surrogatepass"))
    if isinstance(state, list):
        return zlib.crc32("\n".join(("[", *(str(checksum(value)) for value in state))).encode())
    return zlib.crc32(repr(state).encode(errors="surrogatepass"))


def one_line(state: State | Absent) -> str:
    """The state as one would write it down: `Pending(id=7, awaiting=[a2])`."""
    if isinstance(state, Fields):
        return f"{state.kind}({', '.join(f'{name}={one_line(value)}' for name, value in state.items())})"
    if isinstance(state, dict):
        return f"{{{', '.join(f'{key}: {one_line(value)}' for key, value in state.items())}}}"
    if isinstance(state, list):
        return f"[{', '.join(map(one_line, state))}]"
    if isinstance(state, Absent):
        return state.value
    return repr(state) if state == "" else str(state)


def _changes(path: str, before: State | Absent, after: State | Absent) -> Iterator[Change]:
    if before is after:
        return
    match before, after:
        case Fields(), Fields() if before.kind == after.kind:
            for name in dict.fromkeys([*before, *after]):
                inner = f"{path}.{name}" if path else name
                yield from _changes(inner, _at(before, name), _at(after, name))
        case dict(), dict() if type(before) is type(after) is dict:
            yield from _changes_of_mapping(path, before, after)
        case list(), list():
            yield from _changes_of_list(path, before, after)
        case _ if not _same(before, after):
            yield Change(path, before, after)


def _changes_of_mapping(path: str, before: dict[str, State], after: dict[str, State]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        yield from _changes(f"{path}[{name}]", _at(before, name), _at(after, name))
    if before.keys() == after.keys() and list(before) != list(after):
        # An actor that goes through it in its order acts otherwise.
        yield Change(f"{path}.keys()", list(before), list(after))


def _changes_of_list(path: str, before: list[State], after: list[State]) -> Iterator[Change]:
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and _same(before[head], after[head]):
        head += 1
    tail = 0
    while tail < shorter - head and _same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    for place in range(max(len(old), len(new))):
        was = old[place] if place < len(old) else Absent.ABSENT
        now = new[place] if place < len(new) else Absent.ABSENT
        yield from _changes(f"{path}[{head + place}]", was, now)


def _same(one: State | Absent, other: State | Absent) -> bool:
    """Python takes True for 1, and NaN for another NaN; here it is the other way round."""
    if type(one) is not type(other):
        return False
    return one == other or (isinstance(one, float) and repr(one) == repr(other))


def _at(mapping: dict[str, State], name: str) -> State | Absent:
    return mapping.get(name, Absent.ABSENT)


def part_of(state: State, path: str) -> State | Absent:
    """The part at `path` within a state, as a `Change` names it: `_machine.pending[7].awaiting`."""
    part: State | Absent = state
    for attribute, key in _PLACE.findall(path):
        match part:
            case dict():
                part = part.get(attribute or key, Absent.ABSENT)
            case list() if key.isdecimal() and int(key) < len(part):
                part = part[int(key)]
            case _:
                return Absent.ABSENT
    return part


def lines_of(state: State, width: int = _WIDTH, depth: int = _DEPTH) -> list[str]:
    """The state as an indented tree, in which what fits into `width` stands in one line.

    What lies below `depth` is cut short, and so are immutable values: what they hold was told when they were sent.
    """
    return list(_lines("", state, width, depth))


def cut(text: str, width: int = _WIDTH) -> str:
    """The text, cut short where it is longer."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _lines(name: str, state: State, width: int, depth: int) -> Iterator[str]:
    line = name + one_line(state)
    is_value = isinstance(state, Fields) and state.checksum is not None and name != ""
    if not isinstance(state, list | dict) or len(line) <= width or depth == 0 or is_value:
        yield cut(line, width)
        return
    yield name + (state.kind if isinstance(state, Fields) else f"{len(state)} items")
    for member, held in state.items() if isinstance(state, dict) else enumerate(state):
        label = f"{member}: " if isinstance(state, Fields) else f"[{member}]: "
        for inner in _lines(label, held, width - 2, depth - 1):
            yield f"  {inner}"
