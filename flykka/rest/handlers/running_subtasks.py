"""The subtasks that run, of all jobs."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.machines.states import EXECUTION_TERMINAL, JOB_GLOBALLY_TERMINAL
from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.monitoring.job_details import SubtaskDetails


def running_subtasks(gateway: JobQueries) -> Iterator[SubtaskDetails]:
    """Yield each subtask whose current attempt has not ended."""
    running = (job.job_id for job in gateway.jobs() if job.status not in JOB_GLOBALLY_TERMINAL)
    for job_id in running:
        for vertex in gateway.details(job_id).vertices:
            for subtask in gateway.vertex(job_id, vertex.vertex_id)[1]:
                if subtask.current.state not in EXECUTION_TERMINAL:
                    yield subtask
