"""A directed graph as lines of text, as `git log --graph` draws history: a lane for each edge that is under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NODE = "●"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of lanes. Beside the row with the node stands its first line of text; beside `more`, any further ones."""

    lanes: str
    node: str | None = None
    more: str = ""


def drawn(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Iterator[Row]:
    """The rows of a graph whose `nodes` are in topological order."""
    lanes: list[str | None] = []
    for node in nodes:
        arriving = [place for place, target in enumerate(lanes) if target == node]
        if len(arriving) > 1:
            yield Row(_joined(lanes, arriving))
            for place in arriving[1:]:
                lanes[place] = None
            _trim(lanes)
        place = arriving[0] if arriving else _free(lanes)
        leaving = [target for source, target in edges if source == node]
        before = _row(lanes, place, NODE)
        lanes[place] = leaving[0] if leaving else None
        yield Row(before, node, _row(lanes))
        if len(leaving) > 1:
            yield Row(_parted(lanes, place, leaving[1:]))
        _trim(lanes)
        if lanes:
            yield Row(_row(lanes))


def _free(lanes: list[str | None]) -> int:
    lanes.append(None)
    return lanes.index(None)


def _trim(lanes: list[str | None]) -> None:
    while lanes and lanes[-1] is None:
        lanes.pop()


def _row(lanes: Sequence[str | None], place: int = -1, mark: str = "") -> str:
    marks = [mark if index == place else " " if target is None else "│" for index, target in enumerate(lanes)]
    return " ".join(marks).rstrip()


def _joined(lanes: Sequence[str | None], arriving: Sequence[int]) -> str:
    """`├─┴─╯`: several lanes come together in the first."""
    return _bridged(lanes, arriving[0], set(arriving[1:]), corner="╯", between="┴")


def _parted(lanes: list[str | None], place: int, targets: Sequence[str]) -> str:
    """`├─┬─╮`: one lane becomes several, the new ones to the right of it."""
    opened: set[int] = set()
    for target in targets:
        free = next((index for index in range(place + 1, len(lanes)) if lanes[index] is None), len(lanes))
        if free == len(lanes):
            lanes.append(None)
        lanes[free] = target
        opened.add(free)
    return _bridged(lanes, place, opened, corner="╮", between="┬")


def _bridged(lanes: Sequence[str | None], start: int, ends: set[int], *, corner: str, between: str) -> str:
    last = max(ends)
    drawn: list[str] = []
    for index, target in enumerate(lanes):
        inside = start < index < last
        if index == start:
            mark = "├"
        elif index == last:
            mark = corner
        elif index in ends:
            mark = between
        elif inside:
            mark = "─" if target is None else "┼"
        else:
            mark = " " if target is None else "│"
        drawn.append(mark + ("─" if start <= index < last else " "))
    return "".join(drawn).rstrip()
