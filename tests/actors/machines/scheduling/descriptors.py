"""Deployment descriptors with default values."""

from __future__ import annotations

from flykka.messages.graph.job_graph import JobVertex, Operator, OperatorKind, OperatorRef
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, JobVertexId, OperatorId

SOURCE = OperatorId("source")


def descriptor(
    attempt: str, *, allocation: str = "a", job: str = "job-1", vertex_name: str = "Source: flights"
) -> TaskDeploymentDescriptor:
    operator = Operator(
        operator_id=SOURCE,
        ref=OperatorRef(uid="source", fingerprint=""),
        name=vertex_name,
        kind=OperatorKind.SOURCE,
    )
    vertex = JobVertex(
        vertex_id=JobVertexId("v"), name=vertex_name, operators=(operator,), parallelism=1, max_parallelism=128
    )
    return TaskDeploymentDescriptor(
        job_id=JobId(job),
        attempt=ExecutionAttemptId(attempt),
        attempt_number=0,
        vertex=vertex,
        subtask=0,
        allocation_id=AllocationId(allocation),
        outputs=(),
        inputs=(),
        checkpoint_directory="/checkpoints",
    )
