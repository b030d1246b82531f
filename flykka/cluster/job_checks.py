"""Checks whether a cluster can ever run a job: slots, network buffers, and the resources of operators.

A job that would wait forever is refused. Other jobs will release their resources, so a job may wait for those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.actors.machines.job_graph.wiring import task_minima
from flykka.actors.machines.slots import slot_sharing_groups
from flykka.actors.machines.slots.resource_profile import (
    UNSPECIFIED,
    cut_for,
    fits,
    resources_text,
    share_of,
    task_managers_needed,
    total_of,
)
from flykka.errors import InsufficientNetworkBuffersError, InsufficientResourcesError, InsufficientSlotsError
from flykka.messages.graph.job_graph import JobGraph, JobType, ResourceSpec

if TYPE_CHECKING:
    from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
    from flykka.cluster.cluster_settings import ClusterSettings


_ADVICE = "request less (set_resources), or give the TaskManagers more (task_manager_cpu, task_manager_memory)"


def check_job(job_graph: JobGraph, settings: ClusterSettings, slots: int) -> None:
    """Check whether a cluster with these settings, and `slots` per TaskManager, can run the job.

    Raises:
        InsufficientResourcesError: an operator, or operators that share a slot, need more than a TaskManager has; or
            all tasks need more than all TaskManagers.
        InsufficientSlotsError: the maximum number of TaskManagers has fewer slots than the job needs.
        InsufficientNetworkBuffersError: a task needs more network buffers than a TaskManager has, or all tasks need
            more than all TaskManagers have.
    """
    task_managers = max(settings.task_managers, settings.max_task_managers or 0)
    total = settings.resources.slots_total
    asks = any(vertex.resources != UNSPECIFIED for vertex in job_graph.vertices)
    if asks:
        _check_largest(job_graph, total)
    if total == UNSPECIFIED or not asks:
        _check_slots(job_graph, slots, task_managers)
    if total != UNSPECIFIED and job_graph.job_type is not JobType.BATCH:
        _check_together(job_graph, total, slots, task_managers)
    _check_network_buffers(job_graph, settings.network, settings.task_managers)


def _check_largest(job_graph: JobGraph, total: ResourceSpec) -> None:
    there, advice = f"a TaskManager has {resources_text(total)}", _ADVICE
    for vertex in job_graph.vertices:
        if not fits(vertex.resources, total):
            names = ", ".join(repr(operator.name) for operator in vertex.operators)
            needs = "needs" if len(vertex.operators) == 1 else "run as one task that needs"
            raise InsufficientResourcesError(
                f"job {job_graph.name!r}: {names} {needs} {resources_text(vertex.resources)}, and {there}: {advice}"
            )
    for group, members in slot_sharing_groups.slot_sharing_groups(job_graph.vertices).items():
        together = total_of(vertex.resources for vertex in members)
        if not fits(together, total):
            names = ", ".join(repr(vertex.name) for vertex in members if vertex.resources != UNSPECIFIED)
            raise InsufficientResourcesError(
                f"job {job_graph.name!r}: {names} share a slot of group {group!r} and need {resources_text(together)}"
                f" together, and {there}: give them slots of their own (slot_sharing_group), or {advice}"
            )


def _check_together(job_graph: JobGraph, total: ResourceSpec, slots: int, task_managers: int) -> None:
    sizes = tuple(_slot_sizes(job_graph, share_of(total, slots)))
    needed = task_managers_needed([(size, 1) for size in sizes], total)
    if needed > task_managers:
        have = f"each of {task_managers} TaskManagers" if task_managers > 1 else "the TaskManager"
        raise InsufficientResourcesError(
            f"job {job_graph.name!r} needs {len(sizes)} slots with {resources_text(total_of(sizes))} together, but"
            f" {have} has {resources_text(total)}: lower the job's parallelism, {_ADVICE}, or start more TaskManagers"
            " (task_managers)"
        )


def _slot_sizes(job_graph: JobGraph, default: ResourceSpec) -> Iterator[ResourceSpec]:
    """Yield the size of each slot that the job will request, with as many tasks per slot as may share it."""
    for members in slot_sharing_groups.slot_sharing_groups(job_graph.vertices).values():
        for number in range(max(vertex.parallelism for vertex in members)):
            needed = total_of(vertex.resources for vertex in members if vertex.parallelism > number)
            yield cut_for(needed, default)


def _check_slots(job_graph: JobGraph, slots: int, task_managers: int) -> None:
    needed, there = slot_sharing_groups.slots_needed_at_once(job_graph), task_managers * slots
    if needed <= there:
        return
    cluster = f"1 TaskManager with {slots}"
    if task_managers > 1:
        cluster = f"{task_managers} TaskManagers with {slots} each"
    more = "give the cluster more slots: task_managers, slots_per_task_manager"
    widest = max((slot_sharing_groups.parallelism_for(job_graph.vertices, there) or {}).values(), default=0)
    less = f"lower the job's parallelism to {widest}" if widest else "let more operators share slots"
    raise InsufficientSlotsError(
        f"job {job_graph.name!r} needs {needed} slots but the cluster has {there}: {cluster}; {less}, or {more}"
    )


def _check_network_buffers(job_graph: JobGraph, network: NetworkSettings, task_managers: int) -> None:
    """Refuse tasks that can never fit. If tasks are placed badly, their TaskManager refuses them."""
    there = network.network_buffers
    if there is None:
        return
    minima = list(task_minima(job_graph, network.buffers_per_channel))
    largest = max(minima, key=lambda minimum: minimum.buffers)
    advice = "lower the job's parallelism, or give the cluster more network buffers (network_buffers)"
    if largest.buffers > there:
        raise InsufficientNetworkBuffersError(
            f"job {job_graph.name!r}: {largest.task} needs {largest.buffers} network buffers, and each TaskManager"
            f" has {there}: {advice}"
        )
    needed = sum(minimum.buffers for minimum in minima)
    if needed > there * task_managers:
        raise InsufficientNetworkBuffersError(
            f"job {job_graph.name!r} needs {needed} network buffers, and the cluster has {there * task_managers}:"
            f" {advice}"
        )
