"""Jobs: in a list, and one with its vertices (Flink's JobDetails and JobDetailsInfo)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    JobEdge,
    JobGraph,
    JobVertex,
    NoRestartStrategyConfiguration,
    Operator,
    OperatorKind,
    RestartStrategyConfiguration,
    ShipStrategy,
)
from flykka.messages.monitoring.job_details import (
    JobDetails,
    JobOverview,
    JobVertexDetails,
    SubtaskCount,
    SubtaskDetails,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId, OperatorId
from flykka.rest.responses.io_metrics import Json, io_metrics
from flykka.rest.responses.plan import plan
from flykka.rest.responses.times import NEVER, lifetime

TASK_STATES = (*(state.value for state in ExecutionState), "INITIALIZING")
"""Flink's; a task is never INITIALIZING here."""
_WITHIN_A_TASK = "undefined"
"""Flink's exchange of an edge that nobody has said anything of: rows are handed on in a chain, batch by batch."""


def jobs_overview(jobs: Iterable[JobOverview]) -> Json:
    return {"jobs": [job_in_list(job) for job in jobs]}


def job_in_list(job: JobOverview) -> Json:
    """A job in a list. Its tasks are its subtasks."""
    counts = _by_state(job.subtask_counts)
    return {
        "jid": job.job_id,
        "name": job.name,
        "start-time": _or_never(job.started_ms),
        "end-time": _or_never(job.ended_ms),
        "duration": job.duration_ms,
        "state": job.status.value,
        "last-modification": job.last_modification_ms,
        "tasks": {
            "total": sum(counts.values()),
            **{state.lower(): counts.get(state, 0) for state in TASK_STATES},
        },
        "pending-operators": 0,
        "jobType": job.job_type.value,
        "schedulerType": job.scheduler_type.value.title(),
    }


def ids_with_status(jobs: Iterable[JobOverview]) -> Json:
    return {"jobs": [{"id": job.job_id, "status": job.status.value} for job in jobs]}


def job_details(
    details: JobDetails, graph: JobGraph, subtasks: Mapping[JobVertexId, Sequence[SubtaskDetails]], now_ms: int
) -> Json:
    """A job with its vertices and its plan."""
    vertices = [_vertex(vertex, graph, subtasks.get(vertex.vertex_id), now_ms) for vertex in details.vertices]
    states = [vertex["status"] for vertex in vertices]
    stamps = {stamp.status: stamp.at_ms for stamp in details.timestamps}
    return {
        "jid": details.job_id,
        "name": details.name,
        "isStoppable": False,
        "state": details.status.value,
        "job-type": graph.job_type.value,
        "start-time": _or_never(details.started_ms),
        "end-time": _or_never(details.ended_ms),
        "duration": details.duration_ms,
        "maxParallelism": -1,
        "now": now_ms,
        "timestamps": {status.value: stamps.get(status, 0) for status in JobStatus},
        "vertices": vertices,
        "status-counts": {state: states.count(state) for state in TASK_STATES},
        "plan": plan(graph),
        "stream-graph": stream_graph(graph),
        "pending-operators": 0,
        "schedulerType": graph.scheduler_type.value.title(),
    }


def _vertex(vertex: JobVertexDetails, graph: JobGraph, subtasks: Sequence[SubtaskDetails] | None, now_ms: int) -> Json:
    of_graph = next(each for each in graph.vertices if each.vertex_id == vertex.vertex_id)
    counts = _by_state(vertex.subtask_counts)
    attempts = [] if subtasks is None else [subtask.current for subtask in subtasks]
    return {
        "id": vertex.vertex_id,
        "slotSharingGroupId": slot_sharing_group_id(of_graph.slot_sharing_group),
        "name": vertex.name,
        "maxParallelism": min(of_graph.max_parallelism, of_graph.parallelism_limit or of_graph.max_parallelism),
        "parallelism": vertex.parallelism,
        "status": vertex.state.value,
        **lifetime(attempts, now_ms),
        "tasks": {state: counts.get(state, 0) for state in TASK_STATES},
        "metrics": io_metrics((attempt.metrics for attempt in attempts), is_complete=subtasks is not None),
    }


def job_config(graph: JobGraph) -> Json:
    """The configuration of a job. What the user has named stays out: nothing of it is a secret."""
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "execution-config": {
            "restart-strategy": in_words(graph.restart_strategy),
            "job-parallelism": max((vertex.parallelism for vertex in graph.vertices), default=1),
            "object-reuse-mode": False,
            "user-config": {},
        },
    }


def slot_sharing_group_id(group: str) -> str:
    """The id of a slot sharing group: hexadecimal, as Flink's are."""
    return group.encode().hex().ljust(32, "0")[:32]


def _by_state(counts: Iterable[SubtaskCount]) -> dict[str, int]:
    return {each.state.value: each.count for each in counts}


def _or_never(at_ms: int | None) -> int:
    return NEVER if at_ms is None else at_ms


def in_words(strategy: RestartStrategyConfiguration) -> str:
    """Its name and its figures, as Flink says them."""
    match strategy:
        case NoRestartStrategyConfiguration():
            return "Restart deactivated."
        case FixedDelayRestartStrategyConfiguration(attempts=None, delay_ms=delay):
            return f"Restart with fixed delay ({delay} ms), without end."
        case FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=delay):
            return f"Restart with fixed delay ({delay} ms). #{attempts} restart attempts."
        case FailureRateRestartStrategyConfiguration(max_failures=most, interval_ms=interval, delay_ms=delay):
            return (
                f"Failure rate restart with maximum of {most} failures within interval {interval} ms, {delay} ms delay."
            )
        case ExponentialDelayRestartStrategyConfiguration():
            return (
                f"Exponential delay: starting at {strategy.initial_backoff_ms} ms, increasing by"
                f" {strategy.backoff_multiplier} up to {strategy.max_backoff_ms} ms."
            )


def stream_graph(graph: JobGraph) -> Json:
    """The operators in topological order. All of them are in a vertex: none is pending, as where a graph grows."""
    producers = {
        (vertex.vertex_id, number): operator
        for vertex in graph.vertices
        for number, operator in enumerate(vertex.outputs)
    }
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "type": graph.job_type.value,
        "nodes": [
            _node(operator, vertex, [producers[edge.source, edge.source_output] for edge in vertex.inputs])
            for vertex in graph.vertices
            for operator in vertex.operators
        ],
    }


def _node(operator: Operator, vertex: JobVertex, upstream: Sequence[OperatorId]) -> Json:
    node: Json = {
        "id": operator.operator_id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": f"{escape(operator.name)}<br/>",
        "optimizer_properties": {},
        "job_vertex_id": vertex.vertex_id,
    }
    if inputs := list(_inputs(operator, vertex, upstream)):
        node["inputs"] = [{"num": number, **each} for number, each in enumerate(inputs)]
    return node


def _inputs(operator: Operator, vertex: JobVertex, upstream: Sequence[OperatorId]) -> Iterator[Json]:
    if operator.input_operator is not None:
        before = vertex.operators[operator.input_operator]
        yield _edge(before.operator_id, ShipStrategy.FORWARD, _WITHIN_A_TASK)
    elif operator.kind is not OperatorKind.SOURCE:
        for edge, source in zip(vertex.inputs, upstream, strict=True):
            yield _edge(source, edge.ship_strategy, _exchange(edge))


def _edge(source: OperatorId, strategy: ShipStrategy, exchange: str) -> Json:
    return {"id": source, "ship_strategy": strategy.value, "exchange": exchange}


def _exchange(edge: JobEdge) -> str:
    return edge.result_partition_type.value.lower()
