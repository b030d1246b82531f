"""Renders a plan for the terminal's width, with the graph on the left and the descriptions on the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.text import Text

from flykka.messages.graph.job_graph import OperatorKind
from flykka.views.plan.program_plan import PlanGraph, PlanSlot, ProgramNode, ProgramPlan, Wiring

SLOTS_SHOWN = 16
_COLOURS = {
    OperatorKind.SOURCE: "green",
    # The default text colour is used, because white is invisible in a light terminal.
    OperatorKind.STATELESS: "default",
    OperatorKind.LOCAL_INPUT: "default",
    OperatorKind.LOCAL_WINDOW_AGGREGATE: "cyan",
    OperatorKind.WINDOW_AGGREGATE: "cyan",
    OperatorKind.LOCAL_GROUP_AGGREGATE: "cyan",
    OperatorKind.GROUP_AGGREGATE: "cyan",
    OperatorKind.LOCAL_JOIN: "cyan",
    OperatorKind.JOIN: "cyan",
    OperatorKind.REGULAR_JOIN: "cyan",
    OperatorKind.PROCESS: "default",
    OperatorKind.KEYED_PROCESS: "cyan",
    OperatorKind.INCREMENTAL: "cyan",
    OperatorKind.TIMESTAMPS_AND_WATERMARKS: "default",
    OperatorKind.SINK: "magenta",
}
NODE = "●"


class SideNote:
    """Wrapping text with a left margin: `first` on the first line, `rest` on the others."""

    def __init__(self, first: Text, rest: Text, text: Text) -> None:
        self._first = first
        self._rest = rest
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        margin = max(self._first.cell_len, self._rest.cell_len)
        margin += bool(margin)
        lines = self._text.wrap(console, max(options.max_width - margin, 8))
        for number, line in enumerate(lines):
            beside = (self._rest if number else self._first).copy()
            beside.pad_right(margin - beside.cell_len)
            line.rstrip()
            yield beside.append_text(line)


def rendered(plan: ProgramPlan, graphs: Iterable[str] = ("stream", "job", "execution")) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{plan.name}\n", style="bold")]
    for title, summary, graph in plan.sections(graphs):
        parts.append(_heading(title, summary))
        parts += _execution(plan) if graph is None else _graph(graph)
    return Group(*parts)


def _heading(title: str, summary: str) -> RenderableType:
    return SideNote(Text(), Text(), Text.assemble((title, "bold underline"), "  ", (summary, "dim")))


def _graph(graph: PlanGraph) -> Iterator[RenderableType]:
    nodes = {node.key: node for node in graph.nodes}
    arrows = [(edge.source, edge.target) for edge in graph.edges]
    for row in lane_rows([node.key for node in graph.nodes], arrows):
        if row.node is None:
            yield Text(row.lanes, style="dim")
            continue
        node = nodes[row.node]
        yield from _node(node, row.lanes, row.more, tuple(_strategies(graph, node)))
    yield Text()


def _strategies(graph: PlanGraph, node: ProgramNode) -> dict[str, None]:
    return dict.fromkeys(edge.label for edge in graph.edges if edge.target == node.key)


def _node(node: ProgramNode, first: str, rest: str, strategies: tuple[str, ...]) -> Iterator[RenderableType]:
    colour = _COLOURS[node.kind]
    width = max(len(first), len(rest))
    at, below = Text(first.ljust(width)), Text(rest.ljust(width), style="dim")
    at.stylize("dim")
    place = first.index("●")
    at.stylize(f"not dim {colour}", place, place + 1)
    for number, name in enumerate(node.names):
        text = Text(name, style=f"bold {colour}" if number == 0 else colour)
        yield SideNote(at if number == 0 else below, below, text)
    facts = Text(" · ".join(node.facts), style="dim")
    if strategies:
        facts = Text.assemble((", ".join(strategies), "yellow"), (" · ", "dim"), facts)
    yield SideNote(below, below, facts)


def _execution(plan: ProgramPlan) -> Iterator[RenderableType]:
    slots = plan.slots[:SLOTS_SHOWN]
    labels = [f"{slot.group} {slot.number}{f' ({slot.resources})' if slot.resources else ''}" for slot in slots]
    width = max(map(len, labels), default=0)
    for label, slot in zip(labels, slots, strict=True):
        yield _slot(label.ljust(width), slot)
    if len(plan.slots) > SLOTS_SHOWN:
        yield Text(f"... {len(plan.slots) - SLOTS_SHOWN:,} more slots", style="dim")
    if plan.wiring:
        yield Text()
    for wiring in plan.wiring:
        yield _wiring(wiring)


def _slot(label: str, slot: PlanSlot) -> RenderableType:
    margin = Text.assemble(("▪ ", "blue"), (label, "dim"))
    return SideNote(margin, Text(" " * margin.cell_len), Text(" · ".join(slot.tasks)))


def _wiring(wiring: Wiring) -> RenderableType:
    text = Text.assemble(
        wiring.source,
        (" → ", "dim"),
        wiring.target,
        "  ",
        (wiring.label, "yellow"),
        (f"  {wiring.reads_text()}", "dim"),
    )
    return SideNote(Text("┄", style="dim"), Text(" "), text)


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A line of a directed graph as text, drawn like `git log --graph`: one lane for each open edge.

    `lanes` is drawn beside the first line of the node's text, `more` beside further lines.
    """

    lanes: str
    node: str | None = None
    more: str = ""


def lane_rows(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Iterator[LaneRow]:
    """Yield the rows of a graph whose `nodes` are in topological order."""
    lanes: list[str | None] = []
    for node in nodes:
        arriving = [place for place, target in enumerate(lanes) if target == node]
        if len(arriving) > 1:
            yield LaneRow(_joined(lanes, arriving))
            for place in arriving[1:]:
                lanes[place] = None
            _trim(lanes)
        place = arriving[0] if arriving else _free(lanes)
        leaving = [target for source, target in edges if source == node]
        before = _row(lanes, place, NODE)
        lanes[place] = leaving[0] if leaving else None
        yield LaneRow(before, node, _row(lanes))
        if len(leaving) > 1:
            yield LaneRow(_split_line(lanes, place, leaving[1:]))
        _trim(lanes)
        if lanes:
            yield LaneRow(_row(lanes))


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
    """Return `├─┴─╯`: several lanes join the first of them."""
    return _bridged(lanes, arriving[0], set(arriving[1:]), corner="╯", between="┴")


def _split_line(lanes: list[str | None], place: int, targets: Sequence[str]) -> str:
    """Return `├─┬─╮`: one lane splits into several, with the new ones to the right."""
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
    marks: list[str] = []
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
        marks.append(mark + ("─" if start <= index < last else " "))
    return "".join(marks).rstrip()
