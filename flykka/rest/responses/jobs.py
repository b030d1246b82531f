"""Jobs: the list, a job with its vertices and plan, its result, and the application to which the jobs belong.

Follows Flink's JobDetails, JobDetailsInfo, JsonPlanGenerator, JobExecutionResultResponseBody and
ApplicationDetailsInfo.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from flykka.actors.machines.job_graph.json_plan import input_from, node, vertex_node
from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
    JobVertex,
    NoRestartStrategyConfiguration,
    Operator,
    OperatorKind,
    RestartStrategyConfiguration,
    ShipStrategy,
)
from flykka.messages.monitoring.exception_history import FailureOutcome, RootExceptionHistoryEntry
from flykka.messages.monitoring.job_details import (
    JobDetails,
    JobOverview,
    JobVertexDetails,
    SubtaskDetails,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.rest.responses.io_metrics import NEVER, Json, by_state, io_metrics, lifetime
from flykka.rest.responses.vertices import accumulators

TASK_STATES = (*(state.value for state in ExecutionState), "INITIALIZING")
"""Flink's states. A task is never INITIALIZING here."""
_WITHIN_A_TASK = "undefined"
"""Flink's exchange mode for edges that have none. Here it marks edges within a chain, which forward batches."""


def jobs_overview(jobs: Iterable[JobOverview]) -> Json:
    return {"jobs": [job_in_list(job) for job in jobs]}


def job_in_list(job: JobOverview) -> Json:
    """Format a job for a list. Its tasks are its subtasks."""
    counts = by_state(job.subtask_counts)
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
    counts = by_state(vertex.subtask_counts)
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
    """Format the configuration of a job, without user parameters, which may contain secrets."""
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
    return group.encode().hex().ljust(32, "0")[:32]


def _or_never(at_ms: int | None) -> int:
    return NEVER if at_ms is None else at_ms


def in_words(strategy: RestartStrategyConfiguration) -> str:
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
    """Format the operators in topological order. None is pending, because all belong to a vertex."""
    producers = {
        (vertex.vertex_id, number): operator
        for vertex in graph.vertices
        for number, operator in enumerate(vertex.outputs)
    }
    nodes = [
        _node(operator, vertex, [producers[edge.source, edge.source_output] for edge in vertex.inputs])
        for vertex in graph.vertices
        for operator in vertex.operators
    ]
    return _graph(graph, nodes)


def _graph(graph: JobGraph, nodes: list[Json]) -> Json:
    return {"jid": graph.job_id, "name": graph.name, "type": graph.job_type.value, "nodes": nodes}


def _node(operator: Operator, vertex: JobVertex, upstream: Sequence[OperatorId]) -> Json:
    inputs = list(_inputs(operator, vertex, upstream))
    json_node = node(operator.operator_id, vertex.parallelism, f"{escape(operator.name)}<br/>", inputs)
    return {**json_node, "job_vertex_id": vertex.vertex_id}


def _inputs(operator: Operator, vertex: JobVertex, upstream: Sequence[OperatorId]) -> Iterator[Json]:
    if operator.input_operator is not None:
        before = vertex.operators[operator.input_operator]
        yield input_from(before.operator_id, ShipStrategy.FORWARD, _WITHIN_A_TASK)
    elif operator.kind is not OperatorKind.SOURCE:
        for edge, source in zip(vertex.inputs, upstream, strict=True):
            yield input_from(source, edge.ship_strategy, edge.result_partition_type.lower())


_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def execution_result(details: JobDetails) -> Json:
    if details.status not in JOB_GLOBALLY_TERMINAL:
        return {"status": {"id": "IN_PROGRESS"}}
    result: Json = {
        "id": details.job_id,
        "application-status": _APPLICATION_STATUS[details.status],
        "accumulator-results": {each["name"]: each["value"] for each in accumulators(details.accumulators.merged)},
        "net-runtime": details.duration_ms,
    }
    cause = _cause(details)
    if cause is not None:
        result["failure-cause"] = {"class": cause.type_name, "stack-trace": stack_of(cause)}
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def _cause(details: JobDetails) -> SerializedThrowable | None:
    """Return the failure that ended the job, or the reason of a cancellation that no user requested."""
    match details.status:
        case JobStatus.FAILED:
            return details.last_failure
        case JobStatus.CANCELED:
            of_job = (each for each in reversed(details.exceptions) if each.root.task_name is None)
            return next((each.root.cause for each in of_job if each.outcome is FailureOutcome.CANCELED), None)
        case _:
            return None


_PROGRAM = "flykka"


def application(application_id: str, jobs: Sequence[JobOverview], now_ms: int) -> Json:
    """Format the application with its number of jobs per status. Its status is RUNNING, because it responds."""
    began = _began(jobs, now_ms)
    return {
        "id": application_id,
        "name": os.path.basename(sys.argv[0]) or _PROGRAM,
        "start-time": began,
        "end-time": -1,
        "duration": now_ms - began,
        "status": JobStatus.RUNNING.value,
        "jobs": dict(sorted(Counter(job.status.value for job in jobs).items())),
    }


def application_details(application_id: str, jobs: Sequence[JobOverview], now_ms: int) -> Json:
    return {
        **application(application_id, jobs, now_ms),
        "timestamps": {JobStatus.RUNNING.value: _began(jobs, now_ms)},
        "jobs": [job_in_list(job) for job in jobs],
    }


def application_exceptions(failures: Iterable[tuple[JobId, RootExceptionHistoryEntry]]) -> Json:
    """Format the failures of all jobs, newest first."""
    newest = sorted(failures, key=lambda each: each[1].root.timestamp_ms, reverse=True)
    return {"exceptionHistory": {"entries": [_failure(job_id, entry) for job_id, entry in newest]}}


def _failure(job_id: JobId, entry: RootExceptionHistoryEntry) -> Json:
    cause = entry.root.cause
    return {
        "exceptionName": cause.type_name,
        "stacktrace": stack_of(cause),
        "timestamp": entry.last_timestamp_ms or entry.root.timestamp_ms,
        "jobId": job_id,
    }


def stack_of(cause: SerializedThrowable) -> str:
    return cause.stack_trace or f"{cause.type_name}: {cause.message}"


def _began(jobs: Iterable[JobOverview], now_ms: int) -> int:
    return min((job.started_ms or now_ms for job in jobs), default=now_ms)


def plan(graph: JobGraph) -> Json:
    """Format the plan. Consumers come before their inputs, as in Flink."""
    return _graph(graph, [vertex_node(vertex, _chained(vertex)) for vertex in reversed(graph.vertices)])


def _chained(vertex: JobVertex) -> str:
    lines = (f"{'' if not place else '+- '}{escape(operator.name)}" for place, operator in enumerate(vertex.operators))
    return f"{'<br/>'.join(lines)}<br/>"
