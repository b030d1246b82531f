"""The subtasks of a job and their exchanges, as the scheduling strategies see them."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.machines.job_graph.wiring import POINTWISE, pointwise_consumers, pointwise_producers
from flykka.actors.machines.scheduling.topology import Exchange, SchedulingTopology
from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex, ResultPartitionType
from flykka.messages.wire.ids import JobVertexId

Subtask = tuple[JobVertexId, int]


def execution_topology(job_graph: JobGraph) -> SchedulingTopology[Subtask]:
    """Return the topology of a valid job graph. A result is identified by its vertex and its output number."""
    vertices = {vertex.vertex_id: vertex for vertex in job_graph.vertices}
    tasks = [(vertex.vertex_id, subtask) for vertex in job_graph.vertices for subtask in range(vertex.parallelism)]
    exchanges = [
        exchange
        for vertex in job_graph.vertices
        for edge in vertex.inputs
        for exchange in _exchanges(vertices[edge.source], vertex, edge)
    ]
    has_co_location = any(vertex.co_location_group is not None for vertex in job_graph.vertices)
    return SchedulingTopology(tasks, exchanges, has_co_location=has_co_location)


def _exchanges(source: JobVertex, target: JobVertex, edge: JobEdge) -> Iterator[Exchange[Subtask]]:
    for producers, consumers in _connected(source.parallelism, target.parallelism, edge):
        yield Exchange(
            result=(edge.source, edge.source_output),
            producers=tuple((source.vertex_id, subtask) for subtask in producers),
            consumers=tuple((target.vertex_id, subtask) for subtask in consumers),
            is_blocking=edge.result_partition_type is ResultPartitionType.BLOCKING,
        )


def _connected(upstream: int, downstream: int, edge: JobEdge) -> Iterator[tuple[range, range]]:
    if edge.ship_strategy not in POINTWISE:
        yield range(upstream), range(downstream)
    elif upstream <= downstream:
        for producer in range(upstream):
            yield range(producer, producer + 1), pointwise_consumers(upstream, downstream, producer)
    else:
        for consumer in range(downstream):
            yield pointwise_producers(upstream, downstream, consumer), range(consumer, consumer + 1)
