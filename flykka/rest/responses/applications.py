"""The application of a process (Flink's ApplicationDetailsInfo): its program, with all jobs of it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.messages.monitoring.job_details import JobOverview
from flykka.messages.wire.ids import JobId
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.jobs import job_in_list

_PROGRAM = "flykka"


def application(application_id: str, jobs: Sequence[JobOverview], now_ms: int) -> Json:
    """The application in a list, with the number of its jobs by status. It runs as long as somebody can ask."""
    began = _began(jobs, now_ms)
    return {
        "id": application_id,
        "name": os.path.basename(sys.argv[0]) or _PROGRAM,
        "start-time": began,
        "end-time": -1,
        "duration": now_ms - began,
        "status": JobStatus.RUNNING.value,
        "jobs": dict(sorted(Counter(job.status.value for job in jobs).items())),
    }


def application_details(application_id: str, jobs: Sequence[JobOverview], now_ms: int) -> Json:
    """The application with its jobs, and the time since when it runs."""
    return {
        **application(application_id, jobs, now_ms),
        "timestamps": {JobStatus.RUNNING.value: _began(jobs, now_ms)},
        "jobs": [job_in_list(job) for job in jobs],
    }


def application_exceptions(failures: Iterable[tuple[JobId, RootExceptionHistoryEntry]]) -> Json:
    """The failures of all jobs, the newest first."""
    newest = sorted(failures, key=lambda each: each[1].root.timestamp_ms, reverse=True)
    return {"exceptionHistory": {"entries": [_failure(job_id, entry) for job_id, entry in newest]}}


def _failure(job_id: JobId, entry: RootExceptionHistoryEntry) -> Json:
    cause = entry.root.cause
    return {
        "exceptionName": cause.type_name,
        "stacktrace": cause.stack_trace or f"{cause.type_name}: {cause.message}",
        "timestamp": entry.last_timestamp_ms or entry.root.timestamp_ms,
        "jobId": job_id,
    }


def _began(jobs: Iterable[JobOverview], now_ms: int) -> int:
    return min((job.started_ms or now_ms for job in jobs), default=now_ms)
