"""Ended jobs are retained, and found by id."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.read_model.execution_graph_info_store import ExecutionGraphInfoStore
from flykka.messages.checkpointing.statistics import CheckpointTriggered
from flykka.messages.control.job import JobResultSuccess, JobStatus
from flykka.messages.monitoring.job_details import TrackJob
from flykka.messages.wire.ids import JobId
from tests.flykka.client.one_job import GRAPH, JOB, status


def track_job(store: ExecutionGraphInfoStore, job_id: str) -> None:
    store.on_message(TrackJob(job_graph=replace(GRAPH, job_id=JobId(job_id))), 0)


def end(store: ExecutionGraphInfoStore, job_id: str) -> None:
    store.on_message(JobResultSuccess(job_id=JobId(job_id)), 5)


def test_all_running_jobs_and_the_last_ended_ones_are_retained() -> None:
    store = ExecutionGraphInfoStore(capacity=2)
    for job_id in ("a", "b", "c", "runs"):
        track_job(store, job_id)

    for job_id in ("c", "a", "b"):
        end(store, job_id)

    assert list(store.jobs) == ["a", "b", "runs"]
    assert [job.status for job in store.overview(9).jobs] == ["FINISHED", "FINISHED", "CREATED"]


def test_ended_jobs_are_not_retained_if_so_configured() -> None:
    store = ExecutionGraphInfoStore(capacity=0)
    track_job(store, "a")

    end(store, "a")

    assert store.jobs == {}


def test_a_new_job_master_keeps_statistics_except_pending_checkpoints() -> None:
    store = ExecutionGraphInfoStore()
    store.on_message(TrackJob(job_graph=GRAPH), 0)
    store.on_message(status(JobStatus.RUNNING, at=1), 1)
    store.on_message(CheckpointTriggered(job_id=JOB, checkpoint_id=1, timestamp_ms=2, num_subtasks=3), 2)

    store.on_message(TrackJob(job_graph=GRAPH), 9)

    details = store.jobs[JOB].details(10)
    assert (details.started_ms, details.checkpoints_in_progress) == (1, ())
    assert details.last_failed is not None
    assert details.last_failed.duration_ms == 7


def test_an_ended_job_submitted_again_is_a_new_job() -> None:
    store = ExecutionGraphInfoStore()
    track_job(store, JOB)
    end(store, JOB)

    track_job(store, JOB)

    assert store.jobs[JOB].details(10).status is JobStatus.CREATED


def test_an_untracked_job_leaves_no_records() -> None:
    store = ExecutionGraphInfoStore()

    store.on_message(status(JobStatus.RUNNING), 1)

    assert store.jobs == {}
