"""The failures of a job (Flink's JobExceptionsInfoWithHistory), the newest first, and its diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flykka.diagnosis.job_diagnosis import JobDiagnosis
from flykka.messages.monitoring.exception_history import ExceptionHistoryEntry, RootExceptionHistoryEntry
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json


def exception_history(
    entries: Sequence[RootExceptionHistoryEntry], most: int, labelled: Mapping[str, str] | None = None
) -> Json:
    """The last failures, at most so many; `truncated` where there are more.

    With `labelled`, those that have all of these labels.
    """
    wanted = (labelled or {}).items()
    newest = [entry for entry in reversed(entries) if wanted <= _labels(entry.root).items()]
    return {
        "exceptionHistory": {
            "entries": [
                {
                    **_failure(entry.root),
                    **_repeated(entry),
                    "concurrentExceptions": [_failure(each) for each in entry.concurrent],
                }
                for entry in newest[:most]
            ],
            "truncated": len(newest) > most,
        }
    }


def label_filter(said: str | None) -> dict[str, str]:
    """The labels in `key:value,key:value`, as Flink has it in a query. Raises `RestError` where that cannot be read."""
    wanted: dict[str, str] = {}
    for pair in (said or "").split(","):
        key, colon, value = pair.partition(":")
        if not pair:
            continue
        if not (key and colon and value):
            raise RestError(400, f"'failureLabelFilter' is key:value, several with commas between, not {pair!r}")
        if wanted.setdefault(key, value) != value:
            raise RestError(400, f"'failureLabelFilter' names {key!r} twice")
    return wanted


def _labels(entry: ExceptionHistoryEntry) -> dict[str, str]:
    return {label.key: label.value for label in entry.failure_labels}


def _repeated(entry: RootExceptionHistoryEntry) -> Json:
    """The last time of a failure that came several times in a row, and how often it came, as a label."""
    if entry.last_timestamp_ms is None:
        return {}
    labels = {"times": str(entry.times), **_labels(entry.root)}
    return {"timestamp": entry.last_timestamp_ms, "failureLabels": labels}


def _failure(entry: ExceptionHistoryEntry) -> Json:
    cause = entry.cause
    told: Json = {
        "exceptionName": cause.type_name,
        "stacktrace": cause.stack_trace or f"{cause.type_name}: {cause.message}",
        "timestamp": entry.timestamp_ms,
        "failureLabels": _labels(entry),
    }
    if entry.task_name is not None:
        told["taskName"] = entry.task_name
    if entry.task_manager is not None:
        told |= {"endpoint": entry.task_manager, "taskManagerId": entry.task_manager}
    return told


def diagnosis(found: JobDiagnosis) -> Json:
    """The parts, as `JobDiagnosis` has them. A fact without a label goes on with the one before it."""
    return {
        "answer": found.answer,
        "facts": [list(fact) for fact in found.facts],
        "attempts": [
            {
                "name": each.name,
                "vertex": each.vertex_id,
                "state": each.state,
                "taskManager": each.where,
                "is": each.activity,
                "for": each.lasting,
                "waitsFor": each.waits_for,
            }
            for each in found.attempts
        ],
        "leftOut": found.left_out,
    }
