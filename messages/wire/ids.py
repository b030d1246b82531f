"""Ids as readable strings, with distinct types so that the type checker distinguishes them."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
JobVertexId = NewType("JobVertexId", str)
OperatorId = NewType("OperatorId", str)
ExecutionAttemptId = NewType("ExecutionAttemptId", str)
"""`<job>_<vertex>_<subtask>_<attempt number>`, as in newer Flink."""
ResultPartitionId = NewType("ResultPartitionId", str)
"""`<attempt>:<output index>`: a partition belongs to the attempt that produces it."""
TaskManagerId = NewType("TaskManagerId", str)
"""The id of a TaskManager (Flink's ResourceID), which is the name of its actor."""
SlotId = NewType("SlotId", str)
"""`<task manager>/<slot index>`."""
AllocationId = NewType("AllocationId", str)
SlotRequestId = NewType("SlotRequestId", str)
"""`<sharing group>/<number>`: one slot that a job has requested, which its tasks may share."""
BatchId = NewType("BatchId", str)
SplitId = NewType("SplitId", str)
LeaderSessionId = NewType("LeaderSessionId", str)


def attempt_id(job: JobId, vertex: JobVertexId, subtask: int, attempt_number: int) -> ExecutionAttemptId:
    """Return the id of an execution attempt. Subtasks and attempts are numbered from 0."""
    return ExecutionAttemptId(f"{job}_{vertex}_{subtask}_{attempt_number}")


def vertex_subtask_and_number(attempt: ExecutionAttemptId, job: JobId) -> tuple[JobVertexId, int, int]:
    vertex, subtask, number = attempt.removeprefix(f"{job}_").rsplit("_", 2)
    return JobVertexId(vertex), int(subtask), int(number)


def partition_id(attempt: ExecutionAttemptId, output: int) -> ResultPartitionId:
    return ResultPartitionId(f"{attempt}:{output}")


def slot_id(task_manager: TaskManagerId, index: int) -> SlotId:
    return SlotId(f"{task_manager}/{index}")


def task_manager_of(slot: SlotId) -> TaskManagerId:
    return TaskManagerId(slot.rpartition("/")[0])


def producer_of(partition: ResultPartitionId) -> ExecutionAttemptId:
    return ExecutionAttemptId(partition.rpartition(":")[0])
