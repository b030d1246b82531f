"""Failures of a job and their outcomes, sent by the JobMaster to the job's listeners."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message, Value, message, value


class FailureOutcome(StrEnum):
    """The outcome of a failure: undecided, a restart that is pending or has started, or the end of the job."""

    UNDECIDED = "UNDECIDED"
    RESTARTING = "RESTARTING"
    RESTARTED = "RESTARTED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


@value("exceptions.label")
class FailureLabel(Value):
    """A label of a failure, from one of the user's enrichers (Flink's failure labels)."""

    key: str
    value: str


@value("exceptions.entry")
class ExceptionHistoryEntry(Value):
    """A failure of one attempt on its TaskManager, or of the whole job (`task_name` is None).

    Its `failure_labels`, sorted by key, are added a little later than the failure.
    """

    cause: SerializedThrowable
    timestamp_ms: int
    task_name: str | None = None
    attempt: ExecutionAttemptId | None = None
    task_manager: TaskManagerId | None = None
    failure_labels: tuple[FailureLabel, ...] = ()


@value("exceptions.root_entry")
class RootExceptionHistoryEntry(Value):
    """A failure and the reaction to it (Flink's RootExceptionHistoryEntry).

    `number` counts the failures of the job from 1. `concurrent` failures occurred before the reaction was decided;
    `concurrent_suppressed` is the number of further ones. After `delay_ms` the `restarted_tasks` restart, or all tasks
    if it is empty: at `restarted_ms`, from the `restored_checkpoint` (None: from the beginning).

    If the same failure repeats before a checkpoint is completed, it gets no new entry: `root` is the first failure,
    `times` the number of occurrences, `last_timestamp_ms` the time of the last occurrence (None: there was only one),
    and the outcome is that of the last occurrence. If the job has FAILED, `why_not_restarted` is the reason as text.
    """

    number: int
    root: ExceptionHistoryEntry
    concurrent: tuple[ExceptionHistoryEntry, ...] = ()
    concurrent_suppressed: int = 0
    outcome: FailureOutcome = FailureOutcome.UNDECIDED
    delay_ms: int = 0
    restarted_tasks: tuple[str, ...] = ()
    restarted_ms: int | None = None
    restored_checkpoint: int | None = None
    times: int = 1
    last_timestamp_ms: int | None = None
    why_not_restarted: str | None = None


@message("exceptions.changed")
class ExceptionHistoryChanged(Message):
    """JobMaster -> listeners: a new failure, or an update that replaces the entry with the same number."""

    job_id: JobId
    entry: RootExceptionHistoryEntry


@message("exceptions.labelled")
class FailureLabelled(Message):
    """failure enrichers -> JobMaster: the labels of the failure `number`, or of a failure concurrent to it.

    `position` is 0 for the root, and counts from 1 for its concurrent failures.
    """

    number: int
    position: int = 0
    labels: tuple[FailureLabel, ...] = ()


@message("exceptions.labels_timed_out")
class FailureLabelsTimedOut(Message):
    """JobMaster's timer -> itself: stop waiting for the labels of an ended job's failures."""
