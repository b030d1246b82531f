"""Answers to a consumer about the producer of a partition that it did not find (Flink's requestPartitionState)."""

from __future__ import annotations

from collections.abc import Mapping

from flykka.actors.machines.exchange.effects import PRODUCER_DISPOSED_ERROR
from flykka.actors.machines.graph.execution_job_vertex import ExecutionJobVertex
from flykka.actors.machines.graph.execution_vertex import ExecutionVertex
from flykka.messages.tasks.task import PartitionProducerState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, ResultPartitionId, producer_of


def producer_state(
    job_id: JobId,
    vertices: Mapping[JobVertexId, ExecutionJobVertex],
    consumer: ExecutionAttemptId,
    partition_id: ResultPartitionId,
) -> PartitionProducerState:
    """The state of the attempt that produces a partition, where it is the current one of its subtask."""
    producer = producer_of(partition_id)
    subtask = _subtask(job_id, vertices, producer)
    if subtask is None:
        text = f"the job has no attempt {producer}: nobody produces the partition {partition_id}"
        return _failed(consumer, partition_id, "PartitionProducerUnknownError", text)
    if subtask.execution.attempt != producer:
        text = f"{subtask.execution.attempt} has taken the place of {producer}, which produced {partition_id}"
        return _failed(consumer, partition_id, PRODUCER_DISPOSED_ERROR, text)
    return PartitionProducerState(attempt=consumer, partition_id=partition_id, state=subtask.execution.state)


def _subtask(
    job_id: JobId, vertices: Mapping[JobVertexId, ExecutionJobVertex], attempt: ExecutionAttemptId
) -> ExecutionVertex | None:
    """The subtask that this was or is an attempt of; one that is yet to come, it is not."""
    prefix, *numbers = attempt.rsplit("_", 2)
    vertex = vertices.get(JobVertexId(prefix.removeprefix(f"{job_id}_")))
    if vertex is None or len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return None
    index, attempt_number = map(int, numbers)
    if index >= len(vertex.subtasks) or attempt_number > vertex.subtasks[index].execution.number:
        return None
    return vertex.subtasks[index]


def _failed(
    consumer: ExecutionAttemptId, partition_id: ResultPartitionId, type_name: str, text: str
) -> PartitionProducerState:
    failure = SerializedThrowable(type_name=type_name, message=text)
    return PartitionProducerState(attempt=consumer, partition_id=partition_id, failure=failure)
