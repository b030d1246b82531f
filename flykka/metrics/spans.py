"""Spans of jobs: their checkpoints and their restarts, each told once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flykka.messages.checkpointing.statistics import CheckpointStatistics
from flykka.messages.monitoring.exception_history import FailureOutcome, RootExceptionHistoryEntry
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.wire.ids import JobId

Attribute = str | int | bool


@dataclass(frozen=True, slots=True)
class Span:
    """Something that has begun and ended; times in ms since 1970."""

    name: str
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Attribute]


class SpanLog:
    """Tells of each job what it was not told to have ended before."""

    def __init__(self) -> None:
        self._checkpoints: dict[JobId, int] = {}
        self._restarts: dict[JobId, dict[int, int]] = {}

    def new(self, details: JobDetails) -> Iterator[Span]:
        """The spans of what has ended since the last time."""
        job: dict[str, Attribute] = {"job_id": details.job_id, "job_name": details.name}
        yield from self._ended_checkpoints(details, job)
        told = self._restarts.setdefault(details.job_id, {})
        for entry in details.exceptions:
            if entry.outcome is FailureOutcome.RESTARTED and told.get(entry.number) != entry.times:
                told[entry.number] = entry.times
                yield from _restart(entry, job)

    def _ended_checkpoints(self, details: JobDetails, job: Mapping[str, Attribute]) -> Iterator[Span]:
        # They are listed in the order in which they began: what ends behind a later one is waited for.
        in_progress = [each.checkpoint_id for each in details.checkpoints_in_progress]
        last = self._checkpoints.get(details.job_id, 0)
        for each in details.checkpoints:
            if each.checkpoint_id > last and not any(other < each.checkpoint_id for other in in_progress):
                self._checkpoints[details.job_id] = each.checkpoint_id
                yield _checkpoint(each, job)


def _checkpoint(stats: CheckpointStatistics, job: Mapping[str, Attribute]) -> Span:
    attributes = {
        **job,
        "checkpointId": stats.checkpoint_id,
        "checkpointStatus": stats.status.value,
        "checkpointType": "Savepoint" if stats.is_savepoint else "Checkpoint",
        "checkpointedSize": stats.incremental_bytes,
        "fullSize": stats.size_bytes,
        "acknowledgedSubtasks": stats.num_acknowledged_subtasks,
        "subtasks": stats.num_subtasks,
    }
    if stats.reason is not None:
        attributes["failureReason"] = stats.reason.value
    return Span("Checkpoint", stats.ended_ms - stats.duration_ms, stats.ended_ms, attributes)


def _restart(entry: RootExceptionHistoryEntry, job: Mapping[str, Attribute]) -> Iterator[Span]:
    failed_ms = entry.root.timestamp_ms if entry.last_timestamp_ms is None else entry.last_timestamp_ms
    if entry.restarted_ms is None:
        return
    attributes = {**job, "failure": entry.root.cause.message, "failures": entry.times}
    if entry.root.task_name is not None:
        attributes["task_name"] = entry.root.task_name
    if entry.restored_checkpoint is not None:
        attributes["restoredCheckpointId"] = entry.restored_checkpoint
    if entry.restarted_tasks:
        attributes["restartedTasks"] = ", ".join(entry.restarted_tasks)
    yield Span("Restart", failed_ms, entry.restarted_ms, attributes)
