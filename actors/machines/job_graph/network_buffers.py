"""Calculates the least network buffers of each task of a job, before it runs.

The same rule as at its TaskManager (`exchange.shuffle_environment`): one for each subpartition and one more for each
output, and the exclusive ones of its channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flykka.actors.machines.job_graph.wiring import channels, subpartitions
from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMinimum:
    """The least buffers of one task."""

    task: str
    buffers: int


def task_minima(job_graph: JobGraph, buffers_per_channel: int) -> Iterator[TaskMinimum]:
    """The minimum of every subtask of every vertex."""
    vertices = {vertex.vertex_id: vertex for vertex in job_graph.vertices}
    for vertex in job_graph.vertices:
        outgoing = _outgoing(job_graph, vertex)
        for subtask in range(vertex.parallelism):
            outputs = sum(
                subpartitions(edge.ship_strategy, vertex.parallelism, consumer.parallelism, subtask) + 1
                for edge, consumer in outgoing
            )
            inputs = sum(
                len(channels(edge.ship_strategy, vertices[edge.source].parallelism, vertex.parallelism, subtask))
                for edge in vertex.inputs
            )
            name = f"{vertex.name} ({subtask + 1}/{vertex.parallelism})"
            yield TaskMinimum(task=name, buffers=outputs + buffers_per_channel * inputs)


def _outgoing(job_graph: JobGraph, vertex: JobVertex) -> list[tuple[JobEdge, JobVertex]]:
    return [
        (edge, consumer)
        for consumer in job_graph.vertices
        for edge in consumer.inputs
        if edge.source == vertex.vertex_id
    ]
