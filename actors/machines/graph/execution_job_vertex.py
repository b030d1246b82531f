"""Vertices of the job graph with their wiring, and the attempts of their subtasks (Flink's ExecutionJobVertex)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.state.key_groups import VertexParallelism
from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex
from flykka.messages.wire.ids import JobId, JobVertexId, attempt_id


class VertexAttemptNumberStore:
    """The next attempt numbers of subtasks, including subtasks that the current parallelism does not have.

    If a job is scaled down and up again, its attempts do not reuse numbers (Flink's VertexAttemptNumberStore).
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._next: dict[Subtask, int] = {}

    def next(self, task: Subtask) -> int:
        return self._next.get(task, self._first)

    def record(self, subtasks: Iterable[ExecutionVertex]) -> None:
        for subtask in subtasks:
            self._next[subtask.job_vertex.vertex_id, subtask.subtask] = subtask.execution.number + 1


PRIOR_ATTEMPTS_KEPT = 16
"""The maximum number of former attempts that are retained: bounded as in Flink, because a job may fail forever."""


class ExecutionVertex:
    def __init__(
        self, job_id: JobId, job_vertex: JobVertex, subtask: int, now: int, first_attempt_number: int = 0
    ) -> None:
        self.job_vertex = job_vertex
        self.subtask = subtask
        self.name = f"{job_vertex.name} ({subtask + 1}/{job_vertex.parallelism})"
        self.prior: deque[Execution] = deque(maxlen=PRIOR_ATTEMPTS_KEPT)
        self._job_id = job_id
        self.execution = self._attempt(first_attempt_number, now)

    def reset(self, now: int) -> Execution:
        assert self.execution.is_terminal, f"{self.execution.attempt} is {self.execution.state} and cannot be replaced"
        self.prior.append(self.execution)
        self.execution = self._attempt(self.execution.number + 1, now)
        return self.execution

    def _attempt(self, number: int, now: int) -> Execution:
        return Execution(
            attempt=attempt_id(self._job_id, self.job_vertex.vertex_id, self.subtask, number),
            number=number,
            vertex_id=self.job_vertex.vertex_id,
            subtask=self.subtask,
            name=self.name,
            now=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    reader: ExecutionJobVertex
    edge: JobEdge

    @property
    def job_vertex(self) -> JobVertex:
        return self.reader.job_vertex


class ExecutionJobVertex:
    def __init__(self, job_id: JobId, job_vertex: JobVertex, now: int, numbers: VertexAttemptNumberStore) -> None:
        self.job_vertex = job_vertex
        self.subtasks = tuple(
            ExecutionVertex(job_id, job_vertex, subtask, now, numbers.next((job_vertex.vertex_id, subtask)))
            for subtask in range(job_vertex.parallelism)
        )
        self.consumers: dict[int, Consumer] = {}

    def set_max_parallelism(self, max_parallelism: int) -> None:
        """Adopt the number of key groups of a checkpoint. Raises `GraphError` if a different number was configured."""
        now = VertexParallelism(
            parallelism=self.job_vertex.parallelism,
            max_parallelism=self.job_vertex.max_parallelism,
            is_max_configured=self.job_vertex.is_max_parallelism_configured,
        )
        restored = now.with_max_parallelism(max_parallelism)
        self.job_vertex = replace(self.job_vertex, max_parallelism=restored.max_parallelism)
        for subtask in self.subtasks:
            subtask.job_vertex = self.job_vertex


def execution_job_vertices(
    job_graph: JobGraph, now: int, numbers: VertexAttemptNumberStore | None = None
) -> dict[JobVertexId, ExecutionJobVertex]:
    """Return the wired vertices of a valid job graph, in its order. `numbers` has the first attempt numbers."""
    numbers = numbers or VertexAttemptNumberStore(job_graph.first_attempt_number)
    vertices = {
        vertex.vertex_id: ExecutionJobVertex(job_graph.job_id, vertex, now, numbers) for vertex in job_graph.vertices
    }
    for vertex in job_graph.vertices:
        for edge in vertex.inputs:
            vertices[edge.source].consumers[edge.source_output] = Consumer(reader=vertices[vertex.vertex_id], edge=edge)
    return vertices
