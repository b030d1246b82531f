"""Outcomes of the jobs of a run: a fold over its records, to compare a recorded run with a fork of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from flykka.messages.control.job import (
    CheckpointAborted,
    CheckpointCompleted,
    JobResultFailure,
    JobStatus,
    JobStatusChanged,
    SubmitJob,
    TaskManagerLost,
)
from flykka.messages.control.job_control import JobEnded, JobGraphRefused
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from flykka.runtime.trace.text import failure_text, unwrapped

_FAILURES_SHOWN = 5


@dataclass(slots=True, kw_only=True)
class JobOutcome:
    """One job. `status` is the last one, `failures` are what it failed or was restarted for, the first few."""

    job_id: JobId
    submitted_ms: int
    changed_ms: int
    status: JobStatus = JobStatus.CREATED
    has_ended: bool = False
    completed: dict[int, None] = field(default_factory=dict)
    aborted: dict[int, str] = field(default_factory=dict)
    restarts: int = 0
    lost_task_managers: dict[str, None] = field(default_factory=dict)
    failures: dict[str, None] = field(default_factory=dict)
    heard: set[tuple[int, JobStatus]] = field(default_factory=set, repr=False)
    """Every listener hears of each change once."""

    regions: set[tuple[int, int, int]] = field(default_factory=set, repr=False)
    """The restarts of regions, which every listener hears of: the failures and when they came."""

    def note_restart(self, entry: RootExceptionHistoryEntry) -> None:
        """Count the restart of a region, during which the job is RUNNING; one of the whole job is a status of it."""
        came_ms = entry.last_timestamp_ms or entry.root.timestamp_ms
        restart = entry.number, entry.times, came_ms
        if entry.outcome is not FailureOutcome.RESTARTING or not entry.restarted_tasks or restart in self.regions:
            return
        self.regions.add(restart)
        self.restarts += 1
        if len(self.failures) < _FAILURES_SHOWN:
            self.failures[failure_text(entry.root.cause)] = None

    @property
    def duration_ms(self) -> int:
        """The time from the submission to the last change of status."""
        return self.changed_ms - self.submitted_ms


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """A run: its jobs by their ids, and how many turns, failed turns, dead letters and kills it had.

    `raised` says what failed turns have raised, and in which actor, the first few.
    """

    jobs: dict[JobId, JobOutcome] = field(default_factory=dict)
    turns: int = 0
    failed_turns: int = 0
    raised: dict[str, None] = field(default_factory=dict)
    dead_letters: int = 0
    killed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """The outcome of these records."""
        outcome = cls()
        for record in records:
            outcome.observe(record)
        return outcome

    @property
    def has_ended(self) -> bool:
        """Whether there were jobs, and all of them have ended."""
        return bool(self.jobs) and all(job.has_ended for job in self.jobs.values())

    def ends_as(self, other: RunOutcome) -> bool:
        """Whether both have the same jobs, each with the same status at the end."""
        return {job_id: job.status for job_id, job in self.jobs.items()} == {
            job_id: job.status for job_id, job in other.jobs.items()
        }

    def observe(self, record: Record) -> None:
        """This has happened."""
        match record:
            case Turn():
                self.turns += 1
                if record.failure is not None:
                    self._fail(record, record.failure)
                self._take(record)
            case Killed(ref=ref):
                self.killed.append(ref.path)
            case DeadLetterRecord():
                self.dead_letters += 1

    def _fail(self, turn: Turn, failure: SerializedThrowable) -> None:
        self.failed_turns += 1
        if len(self.raised) < _FAILURES_SHOWN:
            self.raised[f"{turn.recipient.path}: {failure_text(failure)}"] = None

    def _take(self, turn: Turn) -> None:
        message = unwrapped(turn.message)
        if isinstance(message, SubmitJob):
            self._submit(turn, message.job_graph.job_id)
            return
        # A client that listens hears the same once more, and so does every other listener.
        job = self.jobs.get(getattr(message, "job_id", JobId("")))
        match message:
            case _ if job is None:
                return
            case JobStatusChanged() if not job.has_ended:
                self._take_status(job, message)
            case JobEnded(status=status):
                job.status, job.has_ended = status, True
            case JobGraphRefused(cause=cause):
                job.status, job.has_ended = JobStatus.FAILED, True
                job.failures[failure_text(cause)] = None
            case CheckpointCompleted(checkpoint_id=checkpoint_id):
                job.completed[checkpoint_id] = None
            case CheckpointAborted(checkpoint_id=checkpoint_id, reason=reason):
                job.aborted[checkpoint_id] = reason.name
            case ExceptionHistoryChanged(entry=entry):
                job.note_restart(entry)
            case TaskManagerLost(task_manager=task_manager):
                job.lost_task_managers[task_manager] = None
            case _:
                return

    def _submit(self, turn: Turn, job_id: JobId) -> None:
        refusals = [effect.message for effect in turn.effects if isinstance(effect, Send)]
        refused = [each.cause for each in refusals if isinstance(each, JobResultFailure)]
        if refused and job_id in self.jobs:
            return  # It is there already.
        job = self.jobs[job_id] = JobOutcome(job_id=job_id, submitted_ms=turn.now_ms, changed_ms=turn.now_ms)
        for cause in refused:
            job.status, job.has_ended = JobStatus.FAILED, True
            job.failures[failure_text(cause)] = None

    def _take_status(self, job: JobOutcome, changed: JobStatusChanged) -> None:
        news = (changed.timestamp_ms, changed.status)
        if news in job.heard or changed.timestamp_ms < job.changed_ms:
            return
        job.heard.add(news)
        if changed.status is JobStatus.RESTARTING:
            job.restarts += 1
        job.status, job.changed_ms = changed.status, changed.timestamp_ms
        if changed.cause is not None and len(job.failures) < _FAILURES_SHOWN:
            job.failures[failure_text(changed.cause)] = None
