"""The slot profile of an attempt: derived from its vertex and from its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from flykka.actors.machines.graph.execution_job_vertex import ExecutionJobVertex
from flykka.actors.machines.graph.execution_vertex import ExecutionVertex
from flykka.actors.machines.job_graph.wiring import POINTWISE, pointwise_producers
from flykka.actors.machines.slots.slot_requests import CoLocationConstraint, SlotRequest
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId

MAX_PRODUCERS_TO_BE_NEAR = 8
"""A reader of more locations prefers none of them (Flink's MAX_DISTINCT_LOCATIONS_TO_CONSIDER)."""


def slot_request(vertices: Mapping[JobVertexId, ExecutionJobVertex], subtask: ExecutionVertex) -> SlotRequest:
    """The request of the current attempt of a subtask."""
    vertex = subtask.job_vertex
    group = vertex.co_location_group
    return SlotRequest(
        attempt=subtask.execution.attempt,
        vertex_id=vertex.vertex_id,
        subtask=subtask.subtask,
        slot_sharing_group=vertex.slot_sharing_group,
        co_location=CoLocationConstraint(group=group, index=subtask.subtask) if group is not None else None,
        resources=vertex.resources,
        inputs=_inputs(vertices, subtask),
    )


def _inputs(
    vertices: Mapping[JobVertexId, ExecutionJobVertex], subtask: ExecutionVertex
) -> tuple[ExecutionAttemptId, ...]:
    """The attempts that it reads from, those of the edge with the fewest producers first."""
    producers: list[list[ExecutionAttemptId]] = []
    for edge in subtask.job_vertex.inputs:
        upstream = vertices[edge.source].subtasks
        read = range(len(upstream))
        if edge.ship_strategy in POINTWISE:
            read = pointwise_producers(len(upstream), subtask.job_vertex.parallelism, subtask.subtask)
        if len(read) <= MAX_PRODUCERS_TO_BE_NEAR:
            producers.append([upstream[producer].execution.attempt for producer in read])
    return tuple(attempt for attempts in sorted(producers, key=len) for attempt in attempts)
