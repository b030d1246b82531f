"""Folds events of a job into a read model, and returns the job's details."""

from __future__ import annotations

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.monitoring.job_details import CHECKPOINT_HISTORY, JobDetails
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId, attempt_id
from flykka.messages.wire.message import Message
from tests.flykka.client.one_job import GRAPH, JOB, WINDOWS


def details_after(*messages: Message, at: int = 0, now: int = 0, checkpoints: int = CHECKPOINT_HISTORY) -> JobDetails:
    overview = JobReadModel(GRAPH)
    for message in messages:
        overview.on_message(message, at)
    return overview.details(now, checkpoints)


def execution_changed(
    state: ExecutionState, subtask: int = 0, number: int = 0, vertex: JobVertexId = WINDOWS, at: int = 0
) -> ExecutionStateChanged:
    return ExecutionStateChanged(
        job_id=JOB,
        attempt=attempt_id(JOB, vertex, subtask, number),
        task_name=f"{vertex} ({subtask + 1}/2)",
        state=state,
        timestamp_ms=at,
    )
