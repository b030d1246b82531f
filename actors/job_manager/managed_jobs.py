"""The jobs of a JobManager, by their ids: which one is meant, which are recovered, and who asks for one that is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from flykka.actors.job_manager.managed_job import ManagedJob, not_cancelled, not_stopped, not_taken
from flykka.actors.job_manager.requirements_requests import RequirementsRequest, refusal
from flykka.messages.control.high_availability import SubmittedJobGraph
from flykka.messages.control.job import (
    CancelJob,
    JobFound,
    JobNotFound,
    RequestCheckpoint,
    RequestJob,
    StopJob,
    TriggerSavepoint,
)
from flykka.messages.control.job_control import JobEnded
from flykka.messages.control.rescaling import RequestJobResourceRequirements, UpdateJobResourceRequirements
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.ref import Ref

JobRequest = RequestJob | CancelJob | StopJob | TriggerSavepoint | RequestCheckpoint | RequirementsRequest
"""Requests to a job that has been submitted."""


def job_run_by(jobs: Mapping[JobId, ManagedJob], job_master: Ref) -> ManagedJob | None:
    return next((job for job in jobs.values() if job.job_master == job_master), None)


def recover(
    jobs: dict[JobId, ManagedJob],
    submitted: SubmittedJobGraph,
    end: JobEnded | None,
    info_store: Ref,
    *,
    is_bound: bool,
) -> None:
    """A new leader has found a job in the store, perhaps one that it has led before.

    Then its code is here all the same, though another driver has gone on with it meanwhile.
    """
    job = jobs.get(submitted.job_graph.job_id)
    if job is None:
        job = jobs[submitted.job_graph.job_id] = ManagedJob(submitted, info_store)
    elif job.is_bound and not is_bound:
        submitted, is_bound = replace(submitted, job_graph=job.submitted.job_graph), True
    job.recover(submitted, end, is_bound=is_bound)


def answer(jobs: Mapping[JobId, ManagedJob], request: JobRequest) -> None:
    """Answer a client, or hand its wish to the JobMaster."""
    job = jobs.get(request.job_id)
    if job is None:
        _answer_without(request)
        return
    match request:
        case RequestJob(job_id=job_id, client=client):
            client.tell(JobFound(job_id=job_id, job_graph=job.submitted.job_graph))
        case CancelJob():
            job.cancel(request)
        case StopJob():
            job.stop(request)
        case TriggerSavepoint() | RequestCheckpoint():
            job.take_snapshot(request)
        case UpdateJobResourceRequirements() | RequestJobResourceRequirements():
            job.on_requirements_request(request)
        case _:
            assert_never(request)


def _answer_without(request: JobRequest) -> None:
    job_id, client = request.job_id, request.client
    match request:
        case RequestJob():
            client.tell(JobNotFound(job_id=job_id))
        case CancelJob():
            client.tell(not_cancelled(job_id))
        case StopJob():
            client.tell(not_stopped(job_id, f"there is no job {job_id} that could be stopped"))
        case TriggerSavepoint() | RequestCheckpoint():
            client.tell(not_taken(request, f"there is no job {job_id} that runs"))
        case UpdateJobResourceRequirements() | RequestJobResourceRequirements():
            client.tell(refusal(request, f"there is no job {job_id} that runs"))
        case _:
            assert_never(request)
