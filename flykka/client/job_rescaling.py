"""Rescaling of a running job that its client asks for (Flink's JobResourceRequirements)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flykka.errors import RescaleError
from flykka.messages.control.rescaling import (
    JobResourceRequirements,
    JobVertexResourceRequirements,
    Rescale,
)
from flykka.messages.graph.job_graph import JobGraph, JobVertex

if TYPE_CHECKING:
    from flykka.client.job_requests import JobRequests

RESCALE_TIMEOUT = 10.0
"""Seconds that a client waits for the word that the job has new requirements."""

Bounds = int | tuple[int, int]
"""The greatest number of subtasks, with 1 as the least; or the least and the greatest."""


class JobRescaling(ABC):
    """A job that can be asked for it."""

    _requests: JobRequests

    @property
    @abstractmethod
    def job_graph(self) -> JobGraph:
        """The submitted graph."""

    def update_resource_requirements(
        self, requirements: Mapping[str, Bounds] | Bounds, timeout: float = RESCALE_TIMEOUT
    ) -> None:
        """Have the job run within other bounds of parallelism from now on, as many subtasks as there are slots for.

        `requirements` are by vertex: its id, its name, or the uid of an operator in it; others stay as they are. A
        number alone, or a pair, is for all vertices that can have it: those with an operator that runs in fewer
        subtasks have as many as that allows. The bounds outlive a failure of the driver with high availability. The job
        takes a checkpoint, all its tasks restart from it, and no row is lost or counts twice. This returns when the job
        has the bounds; `rescales` tells what comes of them.

        Raises:
            RescaleError: the job cannot run so: it is a batch job or takes no checkpoints, a vertex has fewer key
                groups or an operator that runs in fewer subtasks, or the bounds are none; or it has ended.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        self._requests.update_requirements(timeout, bounds_of(self.job_graph, requirements))

    def resource_requirements(self, timeout: float = RESCALE_TIMEOUT) -> dict[str, tuple[int, int]]:
        """Return the least and the greatest parallelism of each vertex, by its id.

        Raises:
            RescaleError: the job has ended.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        found = self._requests.requirements(timeout)
        return {each.vertex_id: (each.lower_bound, each.upper_bound) for each in found.vertices}

    @property
    def rescales(self) -> tuple[Rescale, ...]:
        """The last rescales of the job, the oldest first: what has caused them, what was decided, how they ended.

        Raises:
            ClusterError: its cluster was shut down, or has forgotten the job.
            TimeoutError: the JobManager does not answer within 10 seconds.
        """
        return self._requests.rescales()


def bounds_of(job_graph: JobGraph, requirements: Mapping[str, Bounds] | Bounds) -> JobResourceRequirements:
    """The requirements in the form of messages. Raises `RescaleError` where there is no such vertex."""
    if not isinstance(requirements, Mapping):
        made = [_of_vertex(vertex, requirements, vertex.parallelism_limit) for vertex in job_graph.vertices]
    else:
        made = [_of_vertex(_vertex(job_graph, name), bounds) for name, bounds in requirements.items()]
    return JobResourceRequirements(vertices=tuple(made))


def _of_vertex(vertex: JobVertex, bounds: Bounds, limit: int | None = None) -> JobVertexResourceRequirements:
    lower, upper = (1, bounds) if isinstance(bounds, int) else bounds
    if limit is not None:
        lower, upper = min(lower, limit), min(upper, limit)
    return JobVertexResourceRequirements(vertex_id=vertex.vertex_id, lower_bound=lower, upper_bound=upper)


def _vertex(job_graph: JobGraph, name: str) -> JobVertex:
    for vertex in job_graph.vertices:
        if name in (vertex.vertex_id, vertex.name) or any(each.ref.uid == name for each in vertex.operators):
            return vertex
    known = ", ".join(f"{vertex.name!r} ({vertex.vertex_id})" for vertex in job_graph.vertices)
    raise RescaleError(f"job {job_graph.name!r} has no vertex {name!r}: there are {known}")
