"""Failures of a job and their outcomes: from the JobMaster to the listeners of the job."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message, Value, message, value


class FailureOutcome(StrEnum):
    """The outcome of a failure: not decided yet, a restart that waits or has begun, or the job ended with it."""

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
    """A failure of one attempt on its TaskManager, or of the job as a whole (`task_name` is None).

    Its `failure_labels`, by their keys, come a little later than the failure.
    """

    cause: SerializedThrowable
    timestamp_ms: int
    task_name: str | None = None
    attempt: ExecutionAttemptId | None = None
    task_manager: TaskManagerId | None = None
    failure_labels: tuple[FailureLabel, ...] = ()


@value("exceptions.root_entry")
class RootExceptionHistoryEntry(Value):
    """A failure that something was decided about, and what (Flink's RootExceptionHistoryEntry).

    `number` counts the failures of the job from 1. `concurrent` failed with it, before anything was decided;
    `concurrent_suppressed` are so many more. What starts again after `delay_ms` are the `restarted_tasks`, or all where
    none is named: at `restarted_ms`, from the `restored_checkpoint` (None: from the beginning).

    The same failure that comes back before a checkpoint is completed has no further entry: `root` is the first one,
    `times` how often it has come, `last_timestamp_ms` when it last did (None: once), and the outcome is of the last.

    Where the job has FAILED with it, `why_not_restarted` says in words why it was not restarted.
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
    """JobMaster -> listeners: a failure, or more of what became of it; it takes the place of the one of its number."""

    job_id: JobId
    entry: RootExceptionHistoryEntry


@message("exceptions.labelled")
class FailureLabelled(Message):
    """failure enrichers -> JobMaster: the labels of a failure: of the root of this number, or what failed with it.

    `position` is 0 for the root, and from 1 on for those that are concurrent to it.
    """

    number: int
    position: int = 0
    labels: tuple[FailureLabel, ...] = ()


@message("exceptions.labels_timed_out")
class FailureLabelsTimedOut(Message):
    """JobMaster's timer -> itself: a job that has ended waits no longer for the labels of its failures."""
