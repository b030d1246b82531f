"""Collects what is measured of a cluster: what all reporters report."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from flykka.diagnosis.job_queries import ClusterQueries, JobQueries
from flykka.messages.monitoring.job_details import JobOverview
from flykka.messages.wire.ids import JobId
from flykka.metrics.measured import Measured, of_cluster, of_job, of_subtasks, of_vertices, running

MOST_SUBTASKS = 1_000
"""Of jobs that have more in all, subtasks are measured one by one only where that is asked for."""


class Scope(StrEnum):
    """Depth of what is measured: jobs as a whole, with their vertices, or with each subtask of these."""

    JOB = "job"
    VERTEX = "vertex"
    SUBTASK = "subtask"


def fitting_scope(jobs: tuple[JobOverview, ...]) -> Scope:
    """The finest scope that is measured unasked, by the number of subtasks of the jobs that run."""
    subtasks = sum(counted.count for job in running(jobs) for counted in job.subtask_counts)
    return Scope.SUBTASK if subtasks <= MOST_SUBTASKS else Scope.VERTEX


def collected(
    queries: ClusterQueries, jobs: tuple[JobOverview, ...], scope: Scope, host: str, now_ms: int
) -> Iterator[Measured]:
    """Measure the cluster and the jobs of it that run. Raises what `queries` raise."""
    yield of_cluster(queries.slots(), jobs, host)
    for job in running(jobs):
        yield from collected_of_job(queries, job.job_id, scope, host, now_ms)


def collected_of_job(queries: JobQueries, job_id: JobId, scope: Scope, host: str, now_ms: int) -> Iterator[Measured]:
    details = queries.details(job_id)
    yield of_job(details, queries.checkpoints(job_id), host, now_ms)
    if scope is Scope.VERTEX:
        yield from of_vertices(details, host)
    elif scope is Scope.SUBTASK:
        for vertex in details.vertices:
            yield from of_subtasks(details, *queries.vertex(job_id, vertex.vertex_id), host, now_ms)
