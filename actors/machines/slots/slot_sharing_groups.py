"""Slot sharing groups: the slots that they need, and the parallelism for fewer slots (Flink's
SlotSharingSlotAllocator).

Subtasks of one vertex never share a slot, so a group needs as many slots as its widest vertex has subtasks. Different
groups do not share slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flykka.messages.graph.job_graph import JobGraph, JobType, JobVertex, OperatorKind, SchedulerType
from flykka.messages.wire.ids import JobVertexId


def slot_sharing_groups(vertices: Iterable[JobVertex]) -> Mapping[str, tuple[JobVertex, ...]]:
    groups: dict[str, tuple[JobVertex, ...]] = {}
    for vertex in vertices:
        groups[vertex.slot_sharing_group] = (*groups.get(vertex.slot_sharing_group, ()), vertex)
    return groups


def slots_needed(vertices: Iterable[JobVertex]) -> int:
    groups = slot_sharing_groups(vertices)
    return sum(max(vertex.parallelism for vertex in members) for members in groups.values())


def slots_needed_at_once(job_graph: JobGraph) -> int:
    """Return the minimum number of slots with which the job can run.

    The tasks of a batch job run one after the other, each in any slot of its group, except tasks with a sink, which
    keep their slots until all others have ended. With the adaptive scheduler one subtask of each vertex is enough.
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
    groups = slot_sharing_groups(vertices)
    for_each = slots // len(groups)
    if for_each == 0:
        return None
    return {vertex.vertex_id: min(vertex.parallelism, for_each) for members in groups.values() for vertex in members}
