"""The bounds of a job's vertices: their validation, and the job graph with another parallelism.

Follows Flink's JobResourceRequirements. Vertices that are connected by forward edges have the same parallelism, because
each subtask sends its rows to the subtask with the same number. So they rescale together (Flink's forward group).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flykka.actors.errors import RescaleNotSupportedError
from flykka.actors.machines.job_graph.validation import fixed_parallelism
from flykka.messages.control.rescaling import JobResourceRequirements, JobVertexResourceRequirements
from flykka.messages.graph.job_graph import JobGraph, JobType, JobVertex, SchedulerType, ShipStrategy
from flykka.messages.wire.ids import JobVertexId


def initial_requirements(job_graph: JobGraph) -> JobResourceRequirements:
    """Return the bounds of a job whose bounds no client has set.

    With the adaptive scheduler the upper bound is the job's parallelism and the lower bound is 1. Otherwise both are
    the job's parallelism.
    """
    is_adaptive = job_graph.scheduler_type is SchedulerType.ADAPTIVE
    return JobResourceRequirements(
        vertices=tuple(
            JobVertexResourceRequirements(
                vertex_id=vertex.vertex_id,
                lower_bound=1 if is_adaptive else vertex.parallelism,
                upper_bound=vertex.parallelism,
            )
            for vertex in job_graph.vertices
        )
    )


def updated(before: JobResourceRequirements, changed: JobResourceRequirements) -> JobResourceRequirements:
    bounds = {each.vertex_id: each for each in changed.vertices}
    return JobResourceRequirements(
        vertices=tuple(bounds.pop(each.vertex_id, each) for each in before.vertices) + tuple(bounds.values())
    )


def check_requirements(job_graph: JobGraph, requirements: JobResourceRequirements) -> None:
    """Check that the job can run within these bounds.

    Bounds that were stored for an earlier version of the program may name vertices that the job lacks. Such bounds are
    refused.

    Raises:
        RescaleNotSupportedError: the job cannot run within the bounds. The message names the vertex.
    """
    check_rescalable(job_graph)
    vertices = {vertex.vertex_id: vertex for vertex in job_graph.vertices}
    bounds = {each.vertex_id: each for each in requirements.vertices}
    for unknown in [vertex_id for vertex_id in bounds if vertex_id not in vertices]:
        valid_names = ", ".join(f"{vertex.name!r} ({vertex.vertex_id})" for vertex in vertices.values())
        raise RescaleNotSupportedError(f"job {job_graph.name!r} has no vertex {unknown}; its vertices: {valid_names}")
    for vertex_id, vertex in vertices.items():
        if vertex_id not in bounds:
            raise RescaleNotSupportedError(f"the requirements lack the vertex {vertex.name!r} ({vertex_id})")
        _check_bounds(vertex, bounds[vertex_id])
    for group in forward_groups(job_graph):
        lower, upper = common_bounds(group, bounds)
        if lower > upper:
            names = " and ".join(repr(vertices[vertex_id].name) for vertex_id in group)
            raise RescaleNotSupportedError(
                f"the vertices {names} are connected by forward edges and need equal parallelism, but no number is"
                f" within all bounds: one needs at least {lower}, another one at most {upper}"
            )


def check_rescalable(job_graph: JobGraph) -> None:
    """Raise `RescaleNotSupportedError` if the parallelism of the job cannot change while it runs."""
    if job_graph.job_type is JobType.BATCH:
        raise RescaleNotSupportedError(
            f"job {job_graph.name!r} is a batch job, which cannot be rescaled: its vertices run one after another, and"
            " it does not restart from a checkpoint"
        )
    if job_graph.checkpointing.interval_ms is None:
        raise RescaleNotSupportedError(
            f"job {job_graph.name!r} takes no checkpoints, from which it could restart with another parallelism:"
            ' enable_checkpointing("10s")'
        )
    if (why := fixed_parallelism(job_graph)) is not None:
        raise RescaleNotSupportedError(why)


def _check_bounds(vertex: JobVertex, bounds: JobVertexResourceRequirements) -> None:
    lower, upper = bounds.lower_bound, bounds.upper_bound
    if not 1 <= lower <= upper:
        raise RescaleNotSupportedError(
            f"the bounds of the vertex {vertex.name!r} are {lower} to {upper} subtasks: the lower one must be at least"
            " 1, and at most the upper one"
        )
    if vertex.parallelism_limit is not None and upper > vertex.parallelism_limit:
        raise RescaleNotSupportedError(
            f"the upper bound of the vertex {vertex.name!r} is {upper} subtasks, but one of its operators runs in at"
            f" most {vertex.parallelism_limit}"
        )
    if upper > vertex.max_parallelism:
        raise RescaleNotSupportedError(
            f"the upper bound of the vertex {vertex.name!r} is {upper} subtasks, but its maximum parallelism is"
            f" {vertex.max_parallelism}, which cannot change while the job has state"
        )


def forward_groups(job_graph: JobGraph) -> tuple[tuple[JobVertexId, ...], ...]:
    """Return the groups of vertices that must have the same parallelism, in the order of the job."""
    group_of: dict[JobVertexId, list[JobVertexId]] = {}
    for vertex in job_graph.vertices:
        group = group_of.setdefault(vertex.vertex_id, [vertex.vertex_id])
        for edge in vertex.inputs:
            other = group_of[edge.source]
            if edge.ship_strategy is ShipStrategy.FORWARD and other is not group:
                other += group
                for member in group:
                    group_of[member] = other
                group = other
    return tuple(dict.fromkeys(tuple(group) for group in group_of.values()))


def common_bounds(
    group: tuple[JobVertexId, ...], bounds: Mapping[JobVertexId, JobVertexResourceRequirements]
) -> tuple[int, int]:
    """Return the intersection of the bounds of a group. If it is empty, the lower bound exceeds the upper one."""
    lower = max(bounds[vertex_id].lower_bound for vertex_id in group)
    return lower, min(bounds[vertex_id].upper_bound for vertex_id in group)


def parallelism_of(job_graph: JobGraph) -> dict[JobVertexId, int]:
    return {vertex.vertex_id: vertex.parallelism for vertex in job_graph.vertices}


def with_parallelism(job_graph: JobGraph, parallelism: Mapping[JobVertexId, int]) -> JobGraph:
    vertices = tuple(
        replace(vertex, parallelism=parallelism.get(vertex.vertex_id, vertex.parallelism))
        for vertex in job_graph.vertices
    )
    return replace(job_graph, vertices=vertices)


Bounds = Mapping[JobVertexId, JobVertexResourceRequirements]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlots:
    """The slots of a sharing group: it needs the `minimum` to run, and can use up to `desired`."""

    minimum: int
    desired: int


def group_slots(job_graph: JobGraph, requirements: JobResourceRequirements) -> dict[str, GroupSlots]:
    lower, upper = _effective_bounds(job_graph, requirements)
    return {
        name: GroupSlots(
            minimum=max(lower[vertex.vertex_id] for vertex in job_graph.vertices if vertex.slot_sharing_group == name),
            desired=max(upper[vertex.vertex_id] for vertex in job_graph.vertices if vertex.slot_sharing_group == name),
        )
        for name in dict.fromkeys(vertex.slot_sharing_group for vertex in job_graph.vertices)
    }


def desired_parallelism(job_graph: JobGraph, requirements: JobResourceRequirements) -> dict[JobVertexId, int]:
    return _effective_bounds(job_graph, requirements)[1]


def determine_parallelism(
    job_graph: JobGraph, requirements: JobResourceRequirements, slots: int
) -> dict[JobVertexId, int] | None:
    """Return the parallelism that fits into the slots (Flink's SlotSharingSlotAllocator.determineParallelism).

    A slot holds one subtask of each vertex of its sharing group, so a group needs as many slots as its widest vertex.
    Slots beyond these minima are shared evenly; slots that one group cannot use go to the others.
    """
    groups = group_slots(job_graph, requirements)
    optional = slots - sum(group.minimum for group in groups.values())
    if optional < 0:
        return None
    shares: dict[str, int] = {}
    # The group that can use the fewest slots beyond its minimum comes first, so that its surplus goes to the others.
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
    bounds = {each.vertex_id: each for each in requirements.vertices}
    lower: dict[JobVertexId, int] = {}
    upper: dict[JobVertexId, int] = {}
    for group in forward_groups(job_graph):
        least, most = common_bounds(group, bounds)
        for vertex_id in group:
            lower[vertex_id], upper[vertex_id] = least, most
    return lower, upper
