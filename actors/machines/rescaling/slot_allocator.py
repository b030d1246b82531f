"""The parallelism that fits into the slots (Flink's SlotSharingSlotAllocator.determineParallelism).

A slot holds one subtask of each vertex of its sharing group, so a group needs as many slots as its widest vertex. The
groups share the slots beyond these minima evenly: none gets more than it can use, and what one leaves is the others'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flykka.actors.machines.rescaling.requirements import common_bounds, forward_groups
from flykka.messages.control.rescaling import JobResourceRequirements, JobVertexResourceRequirements
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.ids import JobVertexId

Bounds = Mapping[JobVertexId, JobVertexResourceRequirements]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsOfGroup:
    """The numbers of slots of a sharing group: without the `minimum` it cannot run, and `desired` is all it can use."""

    minimum: int
    desired: int


def slots_of_groups(job_graph: JobGraph, requirements: JobResourceRequirements) -> dict[str, SlotsOfGroup]:
    """The slots that each sharing group needs and can use, by its name."""
    lower, upper = _effective_bounds(job_graph, requirements)
    return {
        name: SlotsOfGroup(
            minimum=max(lower[vertex.vertex_id] for vertex in job_graph.vertices if vertex.slot_sharing_group == name),
            desired=max(upper[vertex.vertex_id] for vertex in job_graph.vertices if vertex.slot_sharing_group == name),
        )
        for name in dict.fromkeys(vertex.slot_sharing_group for vertex in job_graph.vertices)
    }


def desired_parallelism(job_graph: JobGraph, requirements: JobResourceRequirements) -> dict[JobVertexId, int]:
    """The parallelism of each vertex where there are slots enough."""
    return _effective_bounds(job_graph, requirements)[1]


def determine_parallelism(
    job_graph: JobGraph, requirements: JobResourceRequirements, slots: int
) -> dict[JobVertexId, int] | None:
    """The parallelism of each vertex with so many slots; None where they are too few for the lower bounds."""
    groups = slots_of_groups(job_graph, requirements)
    optional = slots - sum(group.minimum for group in groups.values())
    if optional < 0:
        return None
    shares: dict[str, int] = {}
    # The group that can use the fewest beyond its minimum comes first: what it leaves is for the others.
    by_range = sorted(groups.items(), key=lambda each: each[1].desired - each[1].minimum)
    for place, (name, group) in enumerate(by_range):
        beyond = min(group.desired - group.minimum, optional // (len(groups) - place))
        shares[name] = group.minimum + beyond
        optional -= beyond
    upper = desired_parallelism(job_graph, requirements)
    share_of = {vertex.vertex_id: shares[vertex.slot_sharing_group] for vertex in job_graph.vertices}
    return {
        vertex_id: min(upper[vertex_id], *(share_of[member] for member in group))
        for group in forward_groups(job_graph)
        for vertex_id in group
    }


def _effective_bounds(
    job_graph: JobGraph, requirements: JobResourceRequirements
) -> tuple[dict[JobVertexId, int], dict[JobVertexId, int]]:
    """The bounds of each vertex, within those of its forward group."""
    bounds = {each.vertex_id: each for each in requirements.vertices}
    lower: dict[JobVertexId, int] = {}
    upper: dict[JobVertexId, int] = {}
    for group in forward_groups(job_graph):
        least, most = common_bounds(group, bounds)
        for vertex_id in group:
            lower[vertex_id], upper[vertex_id] = least, most
    return lower, upper
