"""The exception history of a job as it is displayed."""

from __future__ import annotations

from flykka.diagnosis.exception_history import JobExceptionHistory
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.wire.failure import SerializedThrowable

CAUSE = SerializedThrowable(
    type_name="ValueError", message="operator 'counts': no\n  File \"app.py\", line 7, in counts"
)
ROOT = ExceptionHistoryEntry(cause=CAUSE, timestamp_ms=11_000, task_name="counts (1/1)")


def test_a_failure_is_shown_with_the_users_line_and_its_handling() -> None:
    entry = RootExceptionHistoryEntry(number=1, root=ROOT, outcome=FailureOutcome.RESTARTED, delay_ms=1_000)

    assert repr(JobExceptionHistory((entry,), began_ms=10_000)).splitlines() == [
        "1.00 s  counts (1/1): ValueError: operator 'counts': no",
        '          File "app.py", line 7, in counts',
        "        the job restarted after 1 s from the beginning",
    ]


def test_a_failure_that_ended_the_job_explains_the_missing_restart() -> None:
    why = "the restart strategy allows no restart"
    entry = RootExceptionHistoryEntry(number=1, root=ROOT, outcome=FailureOutcome.FAILED, why_not_restarted=why)

    *_, outcome = repr(JobExceptionHistory((entry,), began_ms=10_000)).splitlines()

    assert outcome.strip() == f"not recovered: the job has FAILED ({why})"


def test_a_repeated_failure_is_shown_once_with_its_count() -> None:
    entry = RootExceptionHistoryEntry(
        number=1, root=ROOT, outcome=FailureOutcome.RESTARTED, delay_ms=1_000, times=52, last_timestamp_ms=111_000
    )

    *_, outcome = repr(JobExceptionHistory((entry,), began_ms=10_000)).splitlines()

    assert outcome.strip() == "same failure, 52 times in 1 min 40 s; the job restarted after 1 s from the beginning"
