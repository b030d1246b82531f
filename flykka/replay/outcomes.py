"""Outcomes of the jobs of a run, taken from their read models, to compare a recorded run with a fork of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from flykka.actors.execution_graph_info_store.actor import INFO_STORE_PATH
from flykka.actors.machines.read_model.execution_graph_info_store import ExecutionGraphInfoStore
from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.messages.control.job import JobResultFailure, JobStatus, SubmitJob
from flykka.messages.control.job_control import JobEnded, JobGraphRefused
from flykka.messages.monitoring.job_details import TrackJob
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from flykka.runtime.trace.text import failure_text, unwrapped

_FAILURES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The outcome of a job: its last `status`. `failures` are the first causes of its restarts and its end."""

    job_id: JobId
    status: JobStatus
    has_ended: bool
    duration_ms: int
    completed: tuple[int, ...]
    aborted: dict[int, str]
    restarts: int
    lost_task_managers: tuple[str, ...]
    failures: tuple[str, ...]


def _outcome(model: JobReadModel, now_ms: int, *, has_ended: bool) -> JobOutcome:
    details = model.details(now_ms, sys.maxsize)
    causes = [restart.cause for restart in details.restarts if restart.cause is not None]
    if details.status is not JobStatus.FINISHED and details.last_failure is not None:
        causes.append(details.last_failure)
    return JobOutcome(
        job_id=details.job_id,
        status=details.status,
        has_ended=has_ended,
        duration_ms=details.duration_ms,
        completed=tuple(each.checkpoint_id for each in details.checkpoints if each.reason is None),
        aborted={each.checkpoint_id: each.reason.name for each in details.checkpoints if each.reason is not None},
        restarts=details.number_of_restarts,
        lost_task_managers=tuple(model.lost_task_managers),
        failures=tuple(dict.fromkeys(map(failure_text, causes)))[:_FAILURES_SHOWN],
    )


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run: its jobs, and the numbers of turns, failed turns, dead letters and kills.

    `raised` contains the first errors of failed turns, with their actors.
    """

    turns: int = 0
    failed_turns: int = 0
    raised: dict[str, None] = field(default_factory=dict)
    dead_letters: int = 0
    killed: list[str] = field(default_factory=list)
    now_ms: int = 0

    _store: ExecutionGraphInfoStore = field(
        default_factory=lambda: ExecutionGraphInfoStore(sys.maxsize), repr=False, compare=False
    )
    _ended: set[JobId] = field(default_factory=set, repr=False)
    """Jobs whose JobMasters have cleaned up, and refused jobs."""

    @property
    def jobs(self) -> dict[JobId, JobOutcome]:
        return {
            job_id: _outcome(model, self.now_ms, has_ended=job_id in self._ended)
            for job_id, model in self._store.jobs.items()
        }

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> Self:
        outcome = cls()
        for record in records:
            outcome.observe(record)
        return outcome

    @property
    def has_ended(self) -> bool:
        # The store may process a job's last messages after the turn that notifies the JobManager of the job's end.
        have_ended = (model.ended_ms is not None for model in self._store.jobs.values())
        return bool(self._ended) and self._ended >= self._store.jobs.keys() and all(have_ended)

    def ends_as(self, other: RunOutcome) -> bool:
        """Return whether both runs have the same jobs with the same final statuses."""
        return {job_id: job.status for job_id, job in self.jobs.items()} == {
            job_id: job.status for job_id, job in other.jobs.items()
        }

    def observe(self, record: Record) -> None:
        match record:
            case Turn():
                self.turns += 1
                self.now_ms = max(self.now_ms, record.now_ms)
                if record.failure is not None:
                    self._fail(record, record.failure)
                self._read(record)
            case Killed(ref=ref):
                self.killed.append(ref.path)
            case DeadLetterRecord():
                self.dead_letters += 1

    def _fail(self, turn: Turn, failure: SerializedThrowable) -> None:
        self.failed_turns += 1
        if len(self.raised) < _FAILURES_SHOWN:
            self.raised[f"{turn.recipient.path}: {failure_text(failure)}"] = None

    def _read(self, turn: Turn) -> None:
        message = unwrapped(turn.message)
        match message:
            case SubmitJob(job_graph=job_graph):
                refusals = [effect.message for effect in turn.effects if isinstance(effect, Send)]
                refused = next((each for each in refusals if isinstance(each, JobResultFailure)), None)
                if refused is None or job_graph.job_id not in self._store.jobs:
                    self._store.on_message(TrackJob(job_graph=job_graph), turn.now_ms)
                    self._ended.discard(job_graph.job_id)
                    self._refuse(job_graph.job_id, None if refused is None else refused.cause, turn.now_ms)
            case JobGraphRefused(job_id=job_id, cause=cause):
                self._refuse(job_id, cause, turn.now_ms)
            case JobEnded(job_id=job_id):
                self._ended.add(job_id)
            case Message() if turn.recipient.path == INFO_STORE_PATH:
                self._store.on_message(message, turn.now_ms)
            case _:
                return

    def _refuse(self, job_id: JobId, cause: SerializedThrowable | None, now_ms: int) -> None:
        if cause is not None:
            self._store.on_message(JobResultFailure(job_id=job_id, cause=cause), now_ms)
            self._ended.add(job_id)
