"""A plan as Mermaid flowcharts, for Markdown renderers that support them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from flykka.views.plan.program_plan import PlanGraph, PlanSlot, ProgramPlan


def mermaid(plan: ProgramPlan, graphs: Iterable[str] = ("stream", "job", "execution")) -> str:
    parts = [f"# {plan.name}"]
    for title, summary, graph in plan.sections(graphs):
        parts.append(_section(title, summary, _slots(plan) if graph is None else _flowchart(graph)))
    return "\n\n".join(parts) + "\n"


def _section(title: str, summary: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", summary, "", "```mermaid", *lines, "```"])


def _flowchart(graph: PlanGraph) -> Iterator[str]:
    number = {node.key: f"n{index}" for index, node in enumerate(graph.nodes)}
    yield "flowchart TD"
    for node in graph.nodes:
        text = "<br>".join(_escaped(line) for line in (*node.names, f"parallelism {node.parallelism}"))
        yield f'    {number[node.key]}["{text}"]'
    for edge in graph.edges:
        yield f"    {number[edge.source]} -->|{edge.label}| {number[edge.target]}"


def _slots(plan: ProgramPlan) -> Iterator[str]:
    yield "flowchart LR"
    for index, slot in enumerate(plan.slots):
        yield from _slot(index, slot)
    for wiring in plan.wiring:
        yield f"    %% {wiring.source} -> {wiring.target}: {wiring.label}, {wiring.reads_text()}"


def _slot(index: int, slot: PlanSlot) -> Iterator[str]:
    yield f'    subgraph s{index}["{_escaped(slot.group)} {slot.number}"]'
    for place, task in enumerate(slot.tasks):
        yield f'        s{index}t{place}["{_escaped(task)}"]'
    yield "    end"


def _escaped(text: str) -> str:
    return escape(text, quote=False).replace('"', "&quot;")
