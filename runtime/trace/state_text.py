"""A described state to be read: one part of it, or a tree of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flykka.runtime.trace.state_tree import Absent, Fields, State, one_line

_PLACE = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_WIDTH = 110
_DEPTH = 4


def part_of(state: State, path: str) -> State | Absent:
    """What is at `path` within a state, as a `Change` names it: `_machine.pending[7].awaiting`."""
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
