"""The result of a job (Flink's JobExecutionResultResponseBody), once it has ended."""

from __future__ import annotations

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import FailureOutcome
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.wire.failure import SerializedThrowable
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.vertices import accumulators

_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def execution_result(details: JobDetails) -> Json:
    """The result; while the job runs, that it does."""
    if details.status not in JOB_GLOBALLY_TERMINAL:
        return {"status": {"id": "IN_PROGRESS"}}
    result: Json = {
        "id": details.job_id,
        "application-status": _APPLICATION_STATUS[details.status],
        "accumulator-results": {each["name"]: each["value"] for each in accumulators(details.accumulators.merged)},
        "net-runtime": details.duration_ms,
    }
    cause = _cause(details)
    if cause is not None:
        text = cause.stack_trace or f"{cause.type_name}: {cause.message}"
        result["failure-cause"] = {"class": cause.type_name, "stack-trace": text}
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def _cause(details: JobDetails) -> SerializedThrowable | None:
    """The failure that the job has ended with, or why it was cancelled where no user asked for it."""
    match details.status:
        case JobStatus.FAILED:
            return details.last_failure
        case JobStatus.CANCELED:
            of_job = (each for each in reversed(details.exceptions) if each.root.task_name is None)
            return next((each.root.cause for each in of_job if each.outcome is FailureOutcome.CANCELED), None)
        case _:
            return None
