"""Collects what is measured of a cluster: what all reporters report."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.checkpointing.statistics import CheckpointStatsSnapshot
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.monitoring.job_details import JobDetails, JobOverview, JobVertexDetails, SubtaskDetails
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.metrics.measured import Measured, of_cluster, of_job, of_subtasks, of_vertices

MOST_SUBTASKS = 1_000
"""Of jobs that have more in all, subtasks are measured one by one only where that is asked for."""


class Scope(StrEnum):
    """Depth of what is measured: jobs as a whole, with their vertices, or with each subtask of these."""

    JOB = "job"
    VERTEX = "vertex"
    SUBTASK = "subtask"


class Gateway(Protocol):
    """Answers about a cluster and its jobs; raises where it cannot."""

    def slots(self) -> SlotsExplained:
        """The TaskManagers and their slots."""

    def jobs(self) -> tuple[JobOverview, ...]:
        """The jobs that run, and the last that have ended."""

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        """A job as it stands now, with that many of its last checkpoints."""

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot:
        """The checkpoints of a job."""

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        """A vertex, and its subtasks."""


def fitting_scope(jobs: tuple[JobOverview, ...]) -> Scope:
    """The finest scope that is measured unasked, by the number of subtasks of the jobs that run."""
    running = (each for each in jobs if each.status not in JOB_GLOBALLY_TERMINAL)
    subtasks = sum(counted.count for job in running for counted in job.subtask_counts)
    return Scope.SUBTASK if subtasks <= MOST_SUBTASKS else Scope.VERTEX


def collected(
    gateway: Gateway, jobs: tuple[JobOverview, ...], scope: Scope, host: str, now_ms: int
) -> Iterator[Measured]:
    """Measure the cluster and the jobs of it that run. Raises what the gateway raises."""
    yield of_cluster(gateway.slots(), jobs, host)
    for job_id in (job.job_id for job in jobs if job.status not in JOB_GLOBALLY_TERMINAL):
        details = gateway.details(job_id)
        yield of_job(details, gateway.checkpoints(job_id), host, now_ms)
        if scope is Scope.VERTEX:
            yield from of_vertices(details, host)
        elif scope is Scope.SUBTASK:
            for vertex in details.vertices:
                yield from of_subtasks(details, *gateway.vertex(job_id, vertex.vertex_id), host, now_ms)
