"""Converts the bounds of parallelism that a user sets to resource requirements of a job's vertices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flykka.errors import RescaleError
from flykka.messages.control.rescaling import JobResourceRequirements, JobVertexResourceRequirements
from flykka.messages.graph.job_graph import JobGraph, JobVertex

Bounds = int | tuple[int, int]
"""The maximum number of subtasks, with a minimum of 1, or a pair of minimum and maximum."""


def bounds_of(job_graph: JobGraph, requirements: Mapping[str, Bounds] | Bounds) -> JobResourceRequirements:
    """Convert the requirements to a message. Raises `RescaleError` for an unknown vertex or invalid bounds."""
    if not isinstance(requirements, Mapping):
        requested = [_of_vertex(vertex, requirements, vertex.parallelism_limit) for vertex in job_graph.vertices]
    else:
        requested = [_of_vertex(_vertex(job_graph, name), bounds) for name, bounds in requirements.items()]
    return JobResourceRequirements(vertices=tuple(requested))


def _of_vertex(vertex: JobVertex, bounds: Bounds, limit: int | None = None) -> JobVertexResourceRequirements:
    pair = bounds if isinstance(bounds, Sequence) else (1, bounds)
    if [type(each) for each in pair] != [int, int]:
        raise RescaleError(
            f"the parallelism of {vertex.name!r} must be a whole number, or a minimum and a maximum, not {bounds!r}"
        )
    lower, upper = pair
    if limit is not None:
        lower, upper = min(lower, limit), min(upper, limit)
    return JobVertexResourceRequirements(vertex_id=vertex.vertex_id, lower_bound=lower, upper_bound=upper)


def _vertex(job_graph: JobGraph, name: str) -> JobVertex:
    for vertex in job_graph.vertices:
        if name in (vertex.vertex_id, vertex.name) or any(each.ref.uid == name for each in vertex.operators):
            return vertex
    vertices = ", ".join(f"{vertex.name!r} ({vertex.vertex_id})" for vertex in job_graph.vertices)
    raise RescaleError(f"job {job_graph.name!r} has no vertex {name!r}: there are {vertices}")
