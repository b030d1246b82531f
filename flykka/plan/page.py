"""A plan as one page of HTML that needs nothing else: no network, no script, light or dark as the reader has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import accumulate

from flykka.messages.graph.job_graph import OperatorKind
from flykka.plan.layers import Layers, layered
from flykka.plan.program_plan import PlanEdge, PlanGraph, PlanNode, PlanSlot, ProgramPlan, Wiring
from flykka.plan.reads import told

# An operator id is to be read whole: 32 digits, in whatever font the reader has.
_WIDTH = 288
_ACROSS = 80
_BETWEEN = 22
_LINE = 20
_PADDING = 20
_PASSING = 16
_SLOTS_SHOWN = 64
_CLASSES = {
    OperatorKind.SOURCE: "source",
    OperatorKind.SINK: "sink",
    OperatorKind.WINDOW_AGGREGATE: "window",
    OperatorKind.LOCAL_WINDOW_AGGREGATE: "window",
    OperatorKind.GROUP_AGGREGATE: "window",
    OperatorKind.LOCAL_GROUP_AGGREGATE: "window",
    OperatorKind.STATELESS: "stateless",
}


@dataclass(frozen=True, slots=True)
class _Box:
    """A place on the page; without a node an edge passes there."""

    node: PlanNode | None
    left: int
    top: int
    height: int

    @property
    def middle(self) -> int:
        return self.top + self.height // 2


def page(plan: ProgramPlan, graphs: Iterable[str] = ("stream", "job", "execution")) -> str:
    """The whole page."""
    style = (files(__package__) / "page.css").read_text(encoding="utf-8")
    sections = "\n".join(_section(plan, graph) for graph in graphs)
    name = escape(plan.name)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name} - flykka plan</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{name}</h1><p>{_legend()}</p></header>
{sections}
</body>
</html>
"""


def _legend() -> str:
    names = {"source": "source", "stateless": "stateless", "window": "window", "sink": "sink"}
    return " ".join(f'<span class="key {kind}">{text}</span>' for kind, text in names.items())


def _section(plan: ProgramPlan, graph: str) -> str:
    match graph:
        case "stream":
            title, summary, body = plan.stream.title, plan.stream.summary, _drawing(plan.stream)
        case "job":
            title, summary, body = plan.job.title, plan.job.summary, _drawing(plan.job)
        case _:
            title, summary, body = "Execution graph", plan.execution_summary, _execution(plan)
    return f"<section>\n<h2>{title}</h2><p>{escape(summary)}</p>\n{body}\n</section>"


def _drawing(graph: PlanGraph) -> str:
    made = layered([node.key for node in graph.nodes], [(edge.source, edge.target) for edge in graph.edges])
    boxes = dict(_placed(graph, made))
    width = max(box.left for box in boxes.values()) + _WIDTH
    height = max(box.top + box.height for box in boxes.values())
    arrows = "\n".join(_arrow(edge, made, boxes) for edge in graph.edges)
    labels = "\n".join(dict.fromkeys(_label(edge, boxes[edge.target]) for edge in graph.edges))
    nodes = "\n".join(_node(box, box.node) for box in boxes.values() if box.node is not None)
    return f"""<div class="scroll"><div class="graph" style="width:{width}px;height:{height}px">
<svg width="{width}" height="{height}" aria-hidden="true">
<defs><marker id="head-{graph.title[0]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>
<g marker-end="url(#head-{graph.title[0]})">
{arrows}
</g>
{labels}
</svg>
{nodes}
</div></div>"""


def _placed(graph: PlanGraph, made: Layers) -> Iterator[tuple[str, _Box]]:
    nodes = {node.key: node for node in graph.nodes}
    heights = [[_height(nodes.get(key)) for key in layer] for layer in made.layers]
    tallest = max(sum(each) + _BETWEEN * (len(each) - 1) for each in heights)
    for number, (layer, each) in enumerate(zip(made.layers, heights, strict=True)):
        free = (tallest - sum(each) - _BETWEEN * (len(each) - 1)) // 2
        tops = accumulate([height + _BETWEEN for height in each[:-1]], initial=free)
        for key, height, top in zip(layer, each, tops, strict=True):
            yield key, _Box(nodes.get(key), number * (_WIDTH + _ACROSS), top, height)


def _height(node: PlanNode | None) -> int:
    return _PASSING if node is None else _LINE * (len(node.names) + len(node.facts)) + _PADDING


def _node(box: _Box, node: PlanNode) -> str:
    names = "".join(f'<b title="{escape(name)}">{escape(name)}</b>' for name in node.names)
    facts = "".join(f'<i title="{escape(fact)}">{escape(fact)}</i>' for fact in node.facts)
    place = f"left:{box.left}px;top:{box.top}px;width:{_WIDTH}px;height:{box.height}px"
    return f'<div class="node {_CLASSES[node.kind]}" style="{place}">{names}{facts}</div>'


def _arrow(edge: PlanEdge, made: Layers, boxes: dict[str, _Box]) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    x, y = source.left + _WIDTH, source.middle
    path = [f"M{x} {y}"]
    for passed in (boxes[key] for key in made.passed[edge.source, edge.target]):
        path += [_curve(x, y, passed.left, passed.middle), f"H{passed.left + _WIDTH}"]
        x, y = passed.left + _WIDTH, passed.middle
    path.append(_curve(x, y, target.left - 2, target.middle))
    return f'<path d="{" ".join(path)}"/>'


def _curve(x1: int, y1: int, x2: int, y2: int) -> str:
    bend = _ACROSS // 2
    return f"C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


def _label(edge: PlanEdge, target: _Box) -> str:
    """How rows go stands before the target: edges that leave one box lie on each other at first."""
    x, y = target.left - _ACROSS // 2, target.middle - 7
    return f'<text x="{x}" y="{y}" text-anchor="middle">{escape(edge.label)}</text>'


def _execution(plan: ProgramPlan) -> str:
    slots = "\n".join(_slot(slot) for slot in plan.slots[:_SLOTS_SHOWN])
    hidden = len(plan.slots) - _SLOTS_SHOWN
    more = f"<p>and {hidden:,} more slots</p>" if hidden > 0 else ""
    wiring = "\n".join(_wiring(each) for each in plan.wiring)
    return f'<div class="slots">\n{slots}\n</div>{more}\n<ul>\n{wiring}\n</ul>'


def _slot(slot: PlanSlot) -> str:
    tasks = "".join(f"<li>{escape(task)}</li>" for task in slot.tasks)
    return f'<div class="slot"><h3>{escape(slot.group)} <small>{slot.number}</small></h3><ol>{tasks}</ol></div>'


def _wiring(wiring: Wiring) -> str:
    return (
        f"<li>{escape(wiring.source)} &rarr; {escape(wiring.target)} <em>{escape(wiring.label)}</em>"
        f" <span>{escape(told(wiring))}</span></li>"
    )
