"""The failures of a job (Flink's JobExceptionsInfoWithHistory), the newest first."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.messages.monitoring.exception_history import ExceptionHistoryEntry, RootExceptionHistoryEntry
from flykka.rest.responses.io_metrics import Json


def exception_history(entries: Sequence[RootExceptionHistoryEntry], most: int) -> Json:
    """The last failures, at most so many; `truncated` where there are more."""
    newest = list(reversed(entries))
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


def _repeated(entry: RootExceptionHistoryEntry) -> Json:
    """The last time of a failure that came several times in a row, and how often it came, as a label."""
    if entry.last_timestamp_ms is None:
        return {}
    return {"timestamp": entry.last_timestamp_ms, "failureLabels": {"times": str(entry.times)}}


def _failure(entry: ExceptionHistoryEntry) -> Json:
    cause = entry.cause
    told: Json = {
        "exceptionName": cause.type_name,
        "stacktrace": cause.stack_trace or f"{cause.type_name}: {cause.message}",
        "timestamp": entry.timestamp_ms,
        "failureLabels": {},
    }
    if entry.task_name is not None:
        told["taskName"] = entry.task_name
    if entry.task_manager is not None:
        told |= {"endpoint": entry.task_manager, "taskManagerId": entry.task_manager}
    return told
