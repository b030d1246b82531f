"""What is known of one job when its actors have been asked: the client's own knowledge, and what each of them said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.messages.monitoring.explanation import (
    CheckpointsExplained,
    JobExplained,
    LeadershipExplained,
    SlotsExplained,
    StageProgress,
    TaskExplained,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSnapshot:
    """What the client of a job knows without asking an actor; it stays when the actors are gone."""

    job_id: JobId
    job_name: str
    status: JobStatus
    failure: SerializedThrowable | None = None
    exceptions: tuple[RootExceptionHistoryEntry, ...] = ()
    kept_checkpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresponsiveActor:
    """An actor that was asked and has not answered in time.

    `name` is its part ("the JobMaster") or that of its task; `handles` is the message that it has in hand, and
    `waiting` how many wait behind that. `attempt` is set for a Task.
    """

    name: str
    handles: str | None = None
    waiting: int = 0
    attempt: ExecutionAttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorReports(ClientSnapshot):
    """A job at `now_ms`; a report is None where there was no such actor, or it has not answered in `time_limit_ms`."""

    now_ms: int
    leadership: LeadershipExplained | None = None
    job: JobExplained | None = None
    checkpoints: CheckpointsExplained | None = None
    slots: SlotsExplained | None = None
    tasks: Mapping[ExecutionAttemptId, TaskExplained] = field(default_factory=dict)
    stages: Mapping[ExecutionAttemptId, tuple[StageProgress, ...]] = field(default_factory=dict)
    unresponsive: tuple[UnresponsiveActor, ...] = ()
    time_limit_ms: int = 2_000

    def unresponsive_task(self, attempt: ExecutionAttemptId) -> UnresponsiveActor | None:
        """The Task of the attempt, where it has not answered."""
        return next((each for each in self.unresponsive if each.attempt == attempt), None)

    def unresponsive_part(self, name: str) -> UnresponsiveActor | None:
        """An actor of the cluster or of the job, where it has not answered."""
        return next((each for each in self.unresponsive if each.name == name), None)
