"""A plan as a self-contained HTML page: no network, no script, light or dark by the reader's settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from flykka.messages.graph.job_graph import OperatorKind
from flykka.views.html.markup import Html, asset, element, fragment
from flykka.views.html.markup import page as html_page
from flykka.views.plan.program_plan import PlanEdge, PlanGraph, PlanSlot, ProgramNode, ProgramPlan, Wiring

# An operator id, which has 32 digits, fits into this width in any font.
_WIDTH = 288
_ACROSS = 80
_BETWEEN = 22
_LINE = 20
_PADDING = 20
_PASSING = 16
_SLOTS_SHOWN = 64
_CLASSES = {
    OperatorKind.SOURCE: "source",
    OperatorKind.STATELESS: "stateless",
    OperatorKind.LOCAL_INPUT: "stateless",
    OperatorKind.WINDOW_AGGREGATE: "window",
    OperatorKind.LOCAL_WINDOW_AGGREGATE: "window",
    OperatorKind.GROUP_AGGREGATE: "window",
    OperatorKind.LOCAL_GROUP_AGGREGATE: "window",
    OperatorKind.LOCAL_JOIN: "window",
    OperatorKind.JOIN: "window",
    OperatorKind.REGULAR_JOIN: "window",
    OperatorKind.PROCESS: "stateless",
    OperatorKind.KEYED_PROCESS: "window",
    OperatorKind.INCREMENTAL: "window",
    OperatorKind.TIMESTAMPS_AND_WATERMARKS: "stateless",
    OperatorKind.SINK: "sink",
}
Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Box:
    """A position on the page. If it has no node, an edge passes through it."""

    node: ProgramNode | None
    left: int
    top: int
    height: int

    @property
    def middle(self) -> int:
        return self.top + self.height // 2


def page(plan: ProgramPlan, graphs: Iterable[str] = ("stream", "job", "execution")) -> str:
    legend = (element("span", kind, class_=f"key {kind}") for kind in dict.fromkeys(_CLASSES.values()))
    return html_page(
        f"{plan.name} - flykka plan",
        element("header", element("h1", plan.name), element("p", *legend)),
        *(_section(plan, *section) for section in plan.sections(graphs)),
        style=asset("flykka.views.plan", "page.css"),
    )


def _section(plan: ProgramPlan, title: str, summary: str, graph: PlanGraph | None) -> Html:
    body = _execution(plan) if graph is None else _drawing(graph)
    return element("section", element("h2", title), element("p", summary), body)


def _drawing(graph: PlanGraph) -> Html:
    layout = layered([node.key for node in graph.nodes], [(edge.source, edge.target) for edge in graph.edges])
    boxes = dict(_placed(graph, layout))
    width = max(box.left for box in boxes.values()) + _WIDTH
    height = max(box.top + box.height for box in boxes.values())
    head = f"head-{graph.title[0]}"
    marker = element(
        "marker",
        element("path", d="M0 0 L8 4 L0 8 z"),
        id=head,
        viewBox="0 0 8 8",
        refX=7,
        refY=4,
        markerWidth=7,
        markerHeight=7,
        orient="auto",
    )
    svg = element(
        "svg",
        element("defs", marker),
        element("g", *(_arrow(edge, layout, boxes) for edge in graph.edges), marker_end=f"url(#{head})"),
        *dict.fromkeys(_label(edge, boxes[edge.target]) for edge in graph.edges),
        width=width,
        height=height,
        aria_hidden="true",
    )
    nodes = (_node(box, box.node) for box in boxes.values() if box.node is not None)
    size = f"width:{width}px;height:{height}px"
    return element("div", element("div", svg, *nodes, class_="graph", style=size), class_="scroll")


def _placed(graph: PlanGraph, layout: Layers) -> Iterator[tuple[str, _Box]]:
    nodes = {node.key: node for node in graph.nodes}
    heights = [[_height(nodes.get(key)) for key in layer] for layer in layout.layers]
    tallest = max(sum(each) + _BETWEEN * (len(each) - 1) for each in heights)
    for number, (layer, each) in enumerate(zip(layout.layers, heights, strict=True)):
        free = (tallest - sum(each) - _BETWEEN * (len(each) - 1)) // 2
        tops = accumulate([height + _BETWEEN for height in each[:-1]], initial=free)
        for key, height, top in zip(layer, each, tops, strict=True):
            yield key, _Box(nodes.get(key), number * (_WIDTH + _ACROSS), top, height)


def _height(node: ProgramNode | None) -> int:
    return _PASSING if node is None else _LINE * (len(node.names) + len(node.facts)) + _PADDING


def _node(box: _Box, node: ProgramNode) -> Html:
    names = (element("b", name, title=name) for name in node.names)
    facts = (element("i", fact, title=fact) for fact in node.facts)
    place = f"left:{box.left}px;top:{box.top}px;width:{_WIDTH}px;height:{box.height}px"
    return element("div", *names, *facts, class_=f"node {_CLASSES[node.kind]}", style=place)


def _arrow(edge: PlanEdge, layout: Layers, boxes: dict[str, _Box]) -> Html:
    source, target = boxes[edge.source], boxes[edge.target]
    x, y = source.left + _WIDTH, source.middle
    path = [f"M{x} {y}"]
    for box in (boxes[key] for key in layout.passed[edge.source, edge.target]):
        path += [_curve(x, y, box.left, box.middle), f"H{box.left + _WIDTH}"]
        x, y = box.left + _WIDTH, box.middle
    path.append(_curve(x, y, target.left - 2, target.middle))
    return element("path", d=" ".join(path))


def _curve(x1: int, y1: int, x2: int, y2: int) -> str:
    bend = _ACROSS // 2
    return f"C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


def _label(edge: PlanEdge, target: _Box) -> Html:
    """Place the label before the edge's target, because edges that leave one box overlap at first."""
    x, y = target.left - _ACROSS // 2, target.middle - 7
    return element("text", edge.label, x=x, y=y, text_anchor="middle")


def _execution(plan: ProgramPlan) -> Html:
    hidden = len(plan.slots) - _SLOTS_SHOWN
    return fragment(
        element("div", *map(_slot, plan.slots[:_SLOTS_SHOWN]), class_="slots"),
        element("p", f"and {hidden:,} more slots") if hidden > 0 else "",
        element("ul", *map(_wiring, plan.wiring)),
    )


def _slot(slot: PlanSlot) -> Html:
    number = f"{slot.number} · {slot.resources}" if slot.resources else str(slot.number)
    title = element("h3", f"{slot.group} ", element("small", number))
    return element("div", title, element("ol", *(element("li", task) for task in slot.tasks)), class_="slot")


def _wiring(wiring: Wiring) -> Html:
    way, reads = element("em", wiring.label), element("span", wiring.reads_text())
    return element("li", f"{wiring.source} → {wiring.target} ", way, " ", reads)


@dataclass(frozen=True, slots=True)
class Layers:
    """The layout of a graph's boxes on a page: in layers from left to right, each after all its inputs.

    An edge that crosses layers has a position in each of them, so that it does not pass under a box. `layers` contains
    the keys of each layer from top to bottom. `passed` contains, by edge, the keys of the positions that it crosses.
    """

    layers: tuple[tuple[str, ...], ...]
    passed: Mapping[Edge, tuple[str, ...]]


def layered(nodes: Sequence[str], edges: Sequence[Edge]) -> Layers:
    """Return the layers of a graph in topological order. The order within layers avoids crossing edges."""
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node] = max((depth[source] + 1 for source, target in edges if target == node), default=0)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    inputs: dict[str, list[str]] = {node: [] for node in nodes}
    for node in nodes:
        layers[depth[node]].append(node)
    passed_places: dict[Edge, tuple[str, ...]] = {}
    for source, target in edges:
        between = range(depth[source] + 1, depth[target])
        places = [f"{source} to {target} over {layer}" for layer in between]
        passed_places[source, target] = tuple(places)
        for layer, place in zip(between, places, strict=True):
            if place not in inputs:
                inputs[place] = []
                layers[layer].append(place)
        for upper, lower in pairwise([source, *places, target]):
            inputs[lower].append(upper)
    for upper_layer, lower_layer in pairwise(layers):
        order = {key: place for place, key in enumerate(upper_layer)}
        lower_layer.sort(key=lambda key: sum(order[each] for each in inputs[key]) / max(len(inputs[key]), 1))
    return Layers(tuple(map(tuple, layers)), passed_places)
