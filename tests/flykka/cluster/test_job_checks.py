"""A job whose demand exceeds the cluster's maximum is refused with the operator's name and both figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.cluster.cluster_settings import ClusterSettings, TaskManagerResources
from flykka.cluster.job_checks import check_job
from flykka.errors import InsufficientResourcesError, InsufficientSlotsError
from flykka.messages.graph.job_graph import JobGraph, JobType, JobVertex, ResourceSpec
from tests.actors.machines.graph.graphs import graph_of, vertex

TWO_CORES = ClusterSettings(resources=TaskManagerResources(cpu_millis=2_000, memory_mib=1_000, managed_mib=400))


def asking(name: str, cpu_millis: int, parallelism: int = 1, group: str = "default") -> JobVertex:
    return replace(vertex(name, parallelism, group=group), resources=ResourceSpec(cpu_millis=cpu_millis))


@pytest.mark.parametrize(
    ("graph", "refusal"),
    [
        (
            graph_of(asking("parse", 2_500)),
            "'parse' needs 2.5 cores, and a TaskManager has 2 cores, 600 MiB of memory, 400 MiB of managed memory: req",
        ),
        (
            graph_of(asking("parse", 1_500), asking("count", 1_000)),
            "'parse', 'count' share a slot of group 'default' and need 2.5 cores together, and a TaskManager has 2",
        ),
        (
            graph_of(asking("parse", 1_500, group="a"), asking("count", 1_000, group="b")),
            "needs 2 slots with 2.5 cores, 600 MiB of memory, 400 MiB of managed memory together, but the TaskManager",
        ),
    ],
)
def test_a_job_that_fits_no_task_manager_is_refused_with_the_figures(graph: JobGraph, refusal: str) -> None:
    with pytest.raises(InsufficientResourcesError, match=refusal):
        check_job(graph, TWO_CORES, slots=2)


def test_a_job_that_fits_on_the_maximum_of_task_managers_is_accepted() -> None:
    graph = graph_of(asking("parse", 1_500, group="a"), asking("count", 1_000, group="b"))

    check_job(graph, replace(TWO_CORES, max_task_managers=2), slots=2)


def test_tasks_of_a_batch_job_may_run_one_after_another() -> None:
    graph = graph_of(asking("parse", 1_500, group="a"), asking("count", 1_000, group="b"))

    check_job(replace(graph, job_type=JobType.BATCH), TWO_CORES, slots=2)


def test_slots_smaller_than_the_default_allow_more_slots() -> None:
    resources = TaskManagerResources(cpu_millis=2_000)

    check_job(graph_of(asking("parse", 500, parallelism=4)), replace(TWO_CORES, resources=resources), slots=2)


def test_a_job_without_resource_requirements_is_refused_by_slot_count() -> None:
    with pytest.raises(InsufficientSlotsError, match="needs 3 slots but the cluster has 2"):
        check_job(graph_of(vertex("parse", 3)), TWO_CORES, slots=2)


def test_task_managers_without_declared_resources_always_suffice() -> None:
    check_job(graph_of(asking("parse", 64_000, parallelism=2)), ClusterSettings(), slots=2)
    with pytest.raises(InsufficientSlotsError, match="needs 3 slots but the cluster has 2"):
        check_job(graph_of(asking("parse", 1, parallelism=3)), ClusterSettings(), slots=2)
