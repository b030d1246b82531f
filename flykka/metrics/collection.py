"""Collects the measurements of a cluster for all reporters."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from flykka.diagnosis.job_queries import ClusterQueries, JobQueries
from flykka.messages.monitoring.job_details import JobOverview
from flykka.messages.wire.ids import JobId
from flykka.metrics.measured import Measured, of_cluster, of_job, of_subtasks, of_vertices, running

MOST_SUBTASKS = 1_000
"""If the running jobs have more subtasks in total, metrics are not reported per subtask by default."""


class Scope(StrEnum):
    JOB = "job"
    VERTEX = "vertex"
    SUBTASK = "subtask"


def fitting_scope(jobs: tuple[JobOverview, ...]) -> Scope:
    subtasks = sum(each.count for job in running(jobs) for each in job.subtask_counts)
    return Scope.SUBTASK if subtasks <= MOST_SUBTASKS else Scope.VERTEX


def collected(
    queries: ClusterQueries, jobs: tuple[JobOverview, ...], scope: Scope, host: str, now_ms: int
) -> Iterator[Measured]:
    yield of_cluster(queries.slots(), jobs, host)
    for job in running(jobs):
        yield from collect_job(queries, job.job_id, scope, host, now_ms)


def collect_job(queries: JobQueries, job_id: JobId, scope: Scope, host: str, now_ms: int) -> Iterator[Measured]:
    details = queries.details(job_id)
    yield of_job(details, queries.checkpoints(job_id), host, now_ms)
    if scope is Scope.VERTEX:
        yield from of_vertices(details, host)
    elif scope is Scope.SUBTASK:
        for vertex in details.vertices:
            yield from of_subtasks(details, *queries.vertex(job_id, vertex.vertex_id), host, now_ms)
