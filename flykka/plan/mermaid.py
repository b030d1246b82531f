"""A plan as Mermaid flowcharts, for Markdown that draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flykka.plan.program_plan import PlanGraph, PlanSlot, ProgramPlan
from flykka.plan.reads import told


def mermaid(plan: ProgramPlan, graphs: Iterable[str] = ("stream", "job", "execution")) -> str:
    """A Markdown page with a flowchart for each graph."""
    parts = [f"# {plan.name}"]
    for graph in graphs:
        match graph:
            case "stream":
                parts.append(_section(plan.stream.title, plan.stream.summary, _flowchart(plan.stream)))
            case "job":
                parts.append(_section(plan.job.title, plan.job.summary, _flowchart(plan.job)))
            case _:
                parts.append(_section("Execution graph", plan.execution_summary, _slots(plan)))
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
        yield f"    %% {wiring.source} -> {wiring.target}: {wiring.label}, {told(wiring)}"


def _slot(index: int, slot: PlanSlot) -> Iterator[str]:
    yield f'    subgraph s{index}["{_escaped(slot.group)} {slot.number}"]'
    for place, task in enumerate(slot.tasks):
        yield f'        s{index}t{place}["{_escaped(task)}"]'
    yield "    end"


def _escaped(text: str) -> str:
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text
