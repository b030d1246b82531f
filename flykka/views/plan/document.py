"""A plan as JSON: Flink's plan of the job graph, with the stream graph and the execution graph added."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.job_graph.json_plan import json_plan
from flykka.messages.graph.job_graph import JobGraph
from flykka.views.plan.program_plan import PlanGraph, PlanSlot, ProgramPlan


def document(plan: ProgramPlan, job_graph: JobGraph) -> dict[str, Any]:
    """Return the plan as JSON. `jid`, `name` and `nodes` have the format of Flink's web interface."""
    return {
        **json_plan(job_graph),
        "stream_graph": {"nodes": _operators(plan.stream)},
        "execution_graph": {
            "tasks": plan.tasks,
            "slots": [_slot(slot) for slot in plan.slots],
            **({"task_manager": plan.budget} if plan.budget else {}),
            "edges": [
                {
                    "source": wiring.source,
                    "target": wiring.target,
                    "ship_strategy": wiring.label.upper(),
                    **({"reads": wiring.reads} if wiring.reads else {"reads": "all"}),
                }
                for wiring in plan.wiring
            ],
        },
    }


def _slot(slot: PlanSlot) -> dict[str, Any]:
    resources = {"resources": slot.resources} if slot.resources else {}
    return {"group": slot.group, "number": slot.number, "tasks": slot.tasks, **resources}


def _operators(graph: PlanGraph) -> list[dict[str, Any]]:
    """Return the nodes in the format of Flink's JSONGenerator for stream graphs."""
    return [
        {
            "id": node.key,
            "type": node.names[0],
            "pact": _pact(node.kind),
            "parallelism": node.parallelism,
            "predecessors": [
                {"id": edge.source, "ship_strategy": edge.label.upper()}
                for edge in graph.edges
                if edge.target == node.key
            ],
        }
        for node in graph.nodes
    ]


def _pact(kind: str) -> str:
    return {"SOURCE": "Data Source", "SINK": "Data Sink"}.get(kind, "Operator")
