"""Deployment descriptors with defaults."""

from __future__ import annotations

from flykka.messages.ids import AllocationId, ExecutionAttemptId, JobId, JobVertexId
from flykka.messages.job_graph import JobVertex
from flykka.messages.task import TaskDeploymentDescriptor


def descriptor(
    attempt: str, *, allocation: str = "a", job: str = "job-1", vertex_name: str = "Source: flights"
) -> TaskDeploymentDescriptor:
    """An attempt of a vertex without operators and edges."""
    vertex = JobVertex(vertex_id=JobVertexId("v"), name=vertex_name, operators=(), parallelism=1, max_parallelism=128)
    return TaskDeploymentDescriptor(
        job_id=JobId(job),
        job_name="a job",
        attempt=ExecutionAttemptId(attempt),
        attempt_number=0,
        vertex=vertex,
        subtask=0,
        allocation_id=AllocationId(allocation),
        outputs=(),
        inputs=(),
        checkpoint_directory="/checkpoints",
    )
