"""A vertex of the job graph with its subtasks and its wiring (Flink's ExecutionJobVertex)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flykka.actors.machines.graph.attempt_numbers import VertexAttemptNumberStore
from flykka.actors.machines.graph.execution_vertex import ExecutionVertex
from flykka.actors.machines.state.vertex_parallelism import VertexParallelism
from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex
from flykka.messages.wire.ids import JobId, JobVertexId


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer of a vertex's output, and the edge through which it reads."""

    reader: ExecutionJobVertex
    edge: JobEdge

    @property
    def job_vertex(self) -> JobVertex:
        return self.reader.job_vertex


class ExecutionJobVertex:
    """A vertex: its subtasks in order, and by output number who reads them."""

    def __init__(self, job_id: JobId, job_vertex: JobVertex, now: int, numbers: VertexAttemptNumberStore) -> None:
        self.job_vertex = job_vertex
        self.subtasks = tuple(
            ExecutionVertex(job_id, job_vertex, subtask, now, numbers.next((job_vertex.vertex_id, subtask)))
            for subtask in range(job_vertex.parallelism)
        )
        self.consumers: dict[int, Consumer] = {}

    def set_max_parallelism(self, max_parallelism: int) -> None:
        """Take over the number of key groups of a checkpoint. Raises `GraphError` where another one was configured."""
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
    """The vertices of a valid job graph, in its order, wired; their attempts have these numbers, or the first ones."""
    numbers = numbers or VertexAttemptNumberStore(job_graph.first_attempt_number)
    vertices = {
        vertex.vertex_id: ExecutionJobVertex(job_graph.job_id, vertex, now, numbers) for vertex in job_graph.vertices
    }
    for vertex in job_graph.vertices:
        for edge in vertex.inputs:
            vertices[edge.source].consumers[edge.source_output] = Consumer(reader=vertices[vertex.vertex_id], edge=edge)
    return vertices
