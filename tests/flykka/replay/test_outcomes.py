"""What the jobs of a recorded run came to."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.replay.outcomes import JobOutcome

BOOM = SerializedThrowable(type_name="ValueError", message="boom")
REGION = RootExceptionHistoryEntry(
    number=1,
    root=ExceptionHistoryEntry(cause=BOOM, timestamp_ms=10),
    outcome=FailureOutcome.RESTARTING,
    restarted_tasks=("counts (1/1)",),
)


def counted(*entries: RootExceptionHistoryEntry) -> JobOutcome:
    """A job of which these entries were heard."""
    job = JobOutcome(job_id=JobId("job"), submitted_ms=0, changed_ms=0)
    for entry in entries:
        job.note_restart(entry)
    return job


def test_the_restart_of_a_region_is_a_restart_with_its_reason() -> None:
    job = counted(REGION)

    assert (job.restarts, list(job.failures)) == (1, ["ValueError: boom"])


def test_the_restart_of_a_region_counts_once_however_many_hear_of_it() -> None:
    assert counted(REGION, REGION).restarts == 1


def test_each_restart_after_the_same_failure_counts() -> None:
    assert counted(REGION, replace(REGION, times=2, last_timestamp_ms=20)).restarts == 2


def test_a_restart_of_the_whole_job_is_left_to_its_status() -> None:
    assert counted(replace(REGION, restarted_tasks=())).restarts == 0
