"""Wires subtasks: the channels between two vertices (Flink's EdgeManagerBuildUtil), and their network buffers.

A FORWARD or RESCALE edge is point-wise, every other edge all-to-all. A subpartition belongs to one consuming subtask,
so the partition of a producer has one subpartition for each consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex, ShipStrategy

POINTWISE = frozenset({ShipStrategy.FORWARD, ShipStrategy.RESCALE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel of a consuming subtask: the producing subtask, and the subpartition that the channel reads."""

    producer: int
    subpartition: int


def channels(ship_strategy: ShipStrategy, upstream: int, downstream: int, consumer: int) -> tuple[Channel, ...]:
    if ship_strategy not in POINTWISE:
        return tuple(Channel(producer=producer, subpartition=consumer) for producer in range(upstream))
    return tuple(
        Channel(producer=producer, subpartition=consumer - pointwise_consumers(upstream, downstream, producer).start)
        for producer in pointwise_producers(upstream, downstream, consumer)
    )


def subpartitions(ship_strategy: ShipStrategy, upstream: int, downstream: int, producer: int) -> int:
    if ship_strategy not in POINTWISE:
        return downstream
    return len(pointwise_consumers(upstream, downstream, producer))


def pointwise_producers(upstream: int, downstream: int, consumer: int) -> range:
    """Return the producers that a consumer reads: one if there are no more producers than consumers, else its share."""
    if upstream <= downstream:
        producer = consumer * upstream // downstream
        return range(producer, producer + 1)
    return range(consumer * upstream // downstream, (consumer + 1) * upstream // downstream)


def pointwise_consumers(upstream: int, downstream: int, producer: int) -> range:
    """Return the consumers of a producer, which are consecutive. The inverse of `pointwise_producers`."""
    if upstream <= downstream:
        # Rounds up: consumer j reads producer floor(j * upstream / downstream).
        return range(-(-producer * downstream // upstream), -(-(producer + 1) * downstream // upstream))
    # The last consumer whose share begins at or before the producer.
    consumer = ((producer + 1) * downstream - 1) // upstream
    return range(consumer, consumer + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMinimum:
    task: str
    buffers: int


def task_minima(job_graph: JobGraph, buffers_per_channel: int) -> Iterator[TaskMinimum]:
    """Yield the minimum number of network buffers of each task of a job, before it runs.

    The rule is the same as at the TaskManager (`exchange.shuffle_environment`): one buffer for each subpartition, one
    more for each output, and the exclusive buffers of the channels.
    """
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
