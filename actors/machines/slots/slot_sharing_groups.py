"""Slot sharing groups: the slots that they take, and what would run in fewer (Flink's SlotSharingSlotAllocator).

Subtasks of one vertex never share a slot, so a group needs as many as its widest vertex has subtasks, and the groups
need theirs beside each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flykka.messages.graph.job_graph import JobGraph, JobType, JobVertex, OperatorKind, SchedulerType
from flykka.messages.wire.ids import JobVertexId


def slot_sharing_groups(vertices: Iterable[JobVertex]) -> Mapping[str, tuple[JobVertex, ...]]:
    """The groups and their members, in the order of the vertices."""
    groups: dict[str, tuple[JobVertex, ...]] = {}
    for vertex in vertices:
        groups[vertex.slot_sharing_group] = (*groups.get(vertex.slot_sharing_group, ()), vertex)
    return groups


def slots_needed(vertices: Iterable[JobVertex]) -> int:
    """The number of slots it takes to run all of these vertices at once."""
    groups = slot_sharing_groups(vertices)
    return sum(max(vertex.parallelism for vertex in members) for members in groups.values())


def slots_needed_at_once(job_graph: JobGraph) -> int:
    """Below this the job never runs.

    The tasks of a batch job take turns, each in any slot of its group, but for those with a sink: they keep their slots
    until all others have come to their end. With the adaptive scheduler one subtask of each vertex is enough.
    """
    if job_graph.scheduler_type is SchedulerType.ADAPTIVE:
        return len(slot_sharing_groups(job_graph.vertices))
    if job_graph.job_type is not JobType.BATCH:
        return slots_needed(job_graph.vertices)
    in_turn = [vertex if _has_sink(vertex) else replace(vertex, parallelism=1) for vertex in job_graph.vertices]
    return max(slots_needed([vertex, *filter(_has_sink, in_turn)]) for vertex in in_turn)


def _has_sink(vertex: JobVertex) -> bool:
    return any(operator.kind is OperatorKind.SINK for operator in vertex.operators)


def parallelism_for(vertices: Iterable[JobVertex], slots: int) -> Mapping[JobVertexId, int] | None:
    """The parallelism at which the vertices run in so many slots, shared evenly by the groups; None if they cannot."""
    groups = slot_sharing_groups(vertices)
    for_each = slots // len(groups)
    if for_each == 0:
        return None
    return {vertex.vertex_id: min(vertex.parallelism, for_each) for members in groups.values() for vertex in members}
