"""The client of a simulation counts restarts, whether all of a job starts anew or a region of it."""

from __future__ import annotations

from flykka.messages.control.job import JobStatus, JobStatusChanged
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.props import Props
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from flykka.simulation.client import Heard, SimulationClient

JOB = JobId("job-1")
CAUSE = SerializedThrowable(type_name="OSError", message="the stage failed")


def moved(status: JobStatus) -> JobStatusChanged:
    cause = CAUSE if status in (JobStatus.FAILING, JobStatus.RESTARTING) else None
    return JobStatusChanged(job_id=JOB, status=status, timestamp_ms=0, cause=cause)


def failed(number: int, outcome: FailureOutcome) -> ExceptionHistoryChanged:
    root = ExceptionHistoryEntry(cause=CAUSE, timestamp_ms=0)
    return ExceptionHistoryChanged(
        job_id=JOB, entry=RootExceptionHistoryEntry(number=number, root=root, outcome=outcome)
    )


def test_restarts_of_regions_and_of_the_job_are_counted_once_each(seeded_system: SeededSystem) -> None:
    heard, job_manager = Heard(), TestProbe(seeded_system)
    client = seeded_system.spawn(Props(SimulationClient, heard, job_manager.ref), "client")

    for told in (
        moved(JobStatus.RUNNING),
        failed(1, FailureOutcome.UNDECIDED),
        failed(1, FailureOutcome.RESTARTING),
        failed(1, FailureOutcome.RESTARTED),
    ):
        client.tell(told)
    seeded_system.advance(0)
    of_a_region = heard.restarts[JOB]
    for told in (
        moved(JobStatus.FAILING),
        failed(2, FailureOutcome.RESTARTING),
        moved(JobStatus.RESTARTING),
        moved(JobStatus.RUNNING),
        failed(2, FailureOutcome.RESTARTED),
    ):
        client.tell(told)
    seeded_system.advance(0)

    assert (of_a_region, heard.restarts[JOB]) == (1, 2)
