"""Plans of programs without Spark."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.actors.machines.job_graph.stream_graph import StreamGraph
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph, JobType, OperatorKind, ShipStrategy
from flykka.messages.wire.ids import JobId
from flykka.views.plan.program_plan import ProgramPlan, program_plan
from tests.actors.machines.job_graph.programs import edge, keyed_edge, node


def graphs(job_type: JobType = JobType.STREAMING) -> tuple[StreamGraph, JobGraph]:
    """Return two sources with edges by key, pointwise and all to all; one source is read twice."""
    graph = StreamGraph(job_type=job_type)
    graph.add_node(node("orders", OperatorKind.SOURCE, parallelism=4))
    graph.add_node(node("returns", OperatorKind.SOURCE, parallelism=2, automatic=True))
    graph.add_node(node("valid", parallelism=4))
    sums = node("sums", OperatorKind.WINDOW_AGGREGATE, parallelism=2, max_parallelism=16)
    graph.add_node(replace(sums, upsert_keys=("city", "day")))
    graph.add_node(node("archive", OperatorKind.SINK, parallelism=2, group="apart"))
    graph.add_node(node("<&out>", OperatorKind.SINK, parallelism=1))
    graph.add_edge(edge("orders", "valid"))
    graph.add_edge(keyed_edge("valid", "sums"))
    graph.add_edge(keyed_edge("returns", "sums"))
    graph.add_edge(edge("valid", "archive", ShipStrategy.RESCALE))
    graph.add_edge(edge("sums", "<&out>", ShipStrategy.REBALANCE))
    return graph, job_graph(
        graph,
        job_id=JobId("job"),
        name="sums of <orders>",
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=10_000,
        heartbeat_timeout_ms=50_000,
    )


def plan(job_type: JobType = JobType.STREAMING) -> ProgramPlan:
    return program_plan(*graphs(job_type))
