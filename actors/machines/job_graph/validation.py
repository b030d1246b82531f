"""Validates job graphs that arrive in messages.

The generator creates only valid graphs, but any other program may have created a submitted or persisted graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from flykka.actors.errors import GraphError
from flykka.actors.machines.state.key_groups import VertexParallelism
from flykka.messages.graph.job_graph import (
    FailoverStrategyKind,
    JobGraph,
    JobType,
    JobVertex,
    OperatorKind,
    ResultPartitionType,
    ScheduleMode,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobVertexId

_EXCHANGED = {
    JobType.STREAMING: (ResultPartitionType.PIPELINED_BOUNDED, ResultPartitionType.PIPELINED_APPROXIMATE),
    JobType.BATCH: (ResultPartitionType.BLOCKING,),
}


def check_job_graph(job_graph: JobGraph) -> None:
    """Raise `GraphError`, naming the vertex or the operator, if the graph cannot be executed."""
    if not job_graph.vertices:
        raise GraphError(f"the job {job_graph.name!r} has no vertex")
    if job_graph.job_type is JobType.BATCH:
        _check_batch(job_graph)
    _check_broadcast_variables(job_graph)
    if recovers_approximately(job_graph):
        check_approximate(job_graph)
    operators = [operator for vertex in job_graph.vertices for operator in vertex.operators]
    _check_unique("vertex id", (vertex.vertex_id for vertex in job_graph.vertices))
    _check_unique("uid", (operator.ref.uid for operator in operators))
    _check_unique("operator id", (operator.operator_id for operator in operators))
    user_ids = (operator.user_defined_operator_id for operator in operators)
    _check_unique("user-defined operator id", (each for each in user_ids if each is not None))
    earlier: dict[JobVertexId, JobVertex] = {}
    read: set[tuple[JobVertexId, int]] = set()
    for vertex in job_graph.vertices:
        _check_vertex(vertex)
        _check_exchange(job_graph.job_type, vertex)
        _check_inputs(vertex, earlier, read)
        earlier[vertex.vertex_id] = vertex
    _check_co_location(job_graph)
    for vertex in job_graph.vertices:
        for output in range(len(vertex.outputs)):
            if (vertex.vertex_id, output) not in read:
                raise GraphError(f"no vertex reads output {output} of the vertex {vertex.name!r}")


def recovers_approximately(job_graph: JobGraph) -> bool:
    """Return True if a failed task restarts only with its downstream tasks, so that rows are lost."""
    edges = (edge for vertex in job_graph.vertices for edge in vertex.inputs)
    return any(edge.result_partition_type is ResultPartitionType.PIPELINED_APPROXIMATE for edge in edges)


def fixed_parallelism(job_graph: JobGraph) -> str | None:
    """Return the reason why the parallelism of a running job cannot change, or `None` if it can."""
    if recovers_approximately(job_graph):
        return (
            f"the job {job_graph.name!r} has approximate local recovery, so tasks that continue expect the same readers"
        )
    for vertex in job_graph.vertices:
        if any(operator.has_coordinator for operator in vertex.operators):
            return (
                f"the vertex {vertex.name!r} has an operator coordinator, which knows its subtasks by their numbers:"
                " stop the job with a savepoint, and start it from there at another parallelism"
            )
    return None


def check_approximate(job_graph: JobGraph) -> None:
    """Raise `GraphError` if the job cannot have approximate local recovery."""
    kinds = {edge.result_partition_type for vertex in job_graph.vertices for edge in vertex.inputs}
    refusals = {
        "it is a BATCH job, which never loses finished results": job_graph.job_type is JobType.BATCH,
        "its checkpoints are unaligned: they store batches in flight, which approximate recovery drops": (
            job_graph.checkpointing.unaligned
        ),
        f"its schedule mode is {job_graph.schedule_mode}, and must be {ScheduleMode.EAGER}": (
            job_graph.schedule_mode is not ScheduleMode.EAGER
        ),
        f"its failover strategy is {job_graph.failover_strategy}, which restarts all tasks": (
            job_graph.failover_strategy is not FailoverStrategyKind.REGION
        ),
        "only some of its exchanges have approximate recovery": len(kinds) > 1,
    }
    for why, holds in refusals.items():
        if holds:
            raise GraphError(f"the job {job_graph.name!r} cannot have approximate local recovery: {why}")


def _check_batch(job_graph: JobGraph) -> None:
    if job_graph.schedule_mode is ScheduleMode.EAGER:
        raise GraphError(
            f"the BATCH job {job_graph.name!r} is to be scheduled {job_graph.schedule_mode}: its tasks read"
            f" finished results, so it must be {ScheduleMode.PIPELINED_REGION} or {ScheduleMode.LAZY_FROM_SOURCES}"
        )
    if job_graph.checkpointing.interval_ms is not None:
        raise GraphError(
            f"the BATCH job {job_graph.name!r} has a checkpoint interval of {job_graph.checkpointing.interval_ms} ms:"
            " a batch job takes a single checkpoint, at its end"
        )


def _check_broadcast_variables(job_graph: JobGraph) -> None:
    """Check that broadcast variables are complete before their readers begin, and that regions start separately."""
    for vertex in job_graph.vertices:
        for edge in vertex.inputs:
            if edge.broadcast_variable is None:
                continue
            if edge.ship_strategy is not ShipStrategy.BROADCAST:
                raise GraphError(
                    f"the vertex {vertex.name!r} reads the broadcast variable {edge.broadcast_variable!r} by a"
                    f" {edge.ship_strategy} edge: it must be a BROADCAST edge, because every subtask needs all of it"
                )
            if job_graph.schedule_mode is not ScheduleMode.PIPELINED_REGION:
                raise GraphError(
                    f"the job {job_graph.name!r} has the schedule mode {job_graph.schedule_mode}, but {vertex.name!r}"
                    f" reads the broadcast variable {edge.broadcast_variable!r}, which must be complete before the"
                    f" vertex starts: leave the schedule mode unset, or set {ScheduleMode.PIPELINED_REGION}"
                )


def _check_unique(what: str, names: Iterable[Hashable]) -> None:
    known_names: set[Hashable] = set()
    for name in names:
        if name in known_names:
            raise GraphError(f"the {what} {name!r} occurs twice in the job graph")
        known_names.add(name)


def _check_vertex(vertex: JobVertex) -> None:
    if not vertex.operators:
        raise GraphError(f"the vertex {vertex.name!r} has no operator")
    if not vertex.slot_sharing_group:
        raise GraphError(f"the vertex {vertex.name!r} has no slot sharing group, so its slots would never be requested")
    try:
        VertexParallelism(parallelism=vertex.parallelism, max_parallelism=vertex.max_parallelism)
    except GraphError as refused:
        raise GraphError(f"the vertex {vertex.name!r}: {refused}") from refused


def _check_exchange(job_type: JobType, vertex: JobVertex) -> None:
    fitting = _EXCHANGED[job_type]
    for edge in vertex.inputs:
        allowed = fitting if edge.broadcast_variable is None else (ResultPartitionType.BLOCKING,)
        if edge.result_partition_type not in allowed:
            raise GraphError(
                f"the vertex {vertex.name!r} reads a {edge.result_partition_type} output, but the outputs of a"
                f" {job_type} job must be {' or '.join(allowed)}"
            )
    has_sink = any(operator.kind is OperatorKind.SINK for operator in vertex.operators)
    if job_type is JobType.BATCH and has_sink and vertex.outputs:
        raise GraphError(
            f"the vertex {vertex.name!r} of a BATCH job has both a sink, which waits for the end of the job, and an"
            " output, which is read when the vertex has finished: make the sink a vertex of its own"
        )


def _check_inputs(vertex: JobVertex, earlier: dict[JobVertexId, JobVertex], read: set[tuple[JobVertexId, int]]) -> None:
    for edge in vertex.inputs:
        source = earlier.get(edge.source)
        if source is None:
            raise GraphError(f"the vertex {vertex.name!r} reads {edge.source!r}, which must come before it")
        output = (edge.source, edge.source_output)
        if not 0 <= edge.source_output < len(source.outputs):
            raise GraphError(
                f"the vertex {vertex.name!r} reads output {edge.source_output} of {source.name!r}, which does not exist"
            )
        if output in read:
            raise GraphError(f"output {edge.source_output} of {source.name!r} has two readers")
        if edge.ship_strategy is ShipStrategy.FORWARD and source.parallelism != vertex.parallelism:
            raise GraphError(
                f"forward partitioning does not allow change of parallelism: {source.name!r} has {source.parallelism}"
                f" subtasks and {vertex.name!r} has {vertex.parallelism}"
            )
        read.add(output)


def _check_co_location(job_graph: JobGraph) -> None:
    first: dict[str, JobVertex] = {}
    for vertex in job_graph.vertices:
        if vertex.co_location_group is None:
            continue
        other = first.setdefault(vertex.co_location_group, vertex)
        if other.slot_sharing_group != vertex.slot_sharing_group:
            raise GraphError(
                f"the vertices {other.name!r} and {vertex.name!r} are in the co-location group"
                f" {vertex.co_location_group!r} but in the slot sharing groups {other.slot_sharing_group!r} and"
                f" {vertex.slot_sharing_group!r}: co-located vertices must be in one slot sharing group"
            )
