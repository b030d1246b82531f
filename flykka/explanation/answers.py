"""What was said when a job's actors were asked what they wait for, and who said nothing."""

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
from flykka.messages.wire.ids import ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """An actor that was asked and has not answered in time.

    `who` is its part ("the JobMaster") or the name of its task; `handles` is the message that it has in hand, and
    `waiting` how many wait behind that. `attempt` is set for a Task.
    """

    who: str
    handles: str | None = None
    waiting: int = 0
    attempt: ExecutionAttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Everything that is known of one job at `now_ms`; None where nobody was there to be asked, or nobody answered.

    `status`, `failure` and `exceptions` are what its client knows, which stays when the actors are gone. Who was asked
    had `time_limit_ms` for the answer.
    """

    job_name: str
    job_id: str
    now_ms: int
    status: JobStatus
    failure: SerializedThrowable | None = None
    exceptions: tuple[RootExceptionHistoryEntry, ...] = ()
    kept_checkpoint: str | None = None
    leadership: LeadershipExplained | None = None
    job: JobExplained | None = None
    checkpoints: CheckpointsExplained | None = None
    slots: SlotsExplained | None = None
    tasks: Mapping[ExecutionAttemptId, TaskExplained] = field(default_factory=dict)
    stages: Mapping[ExecutionAttemptId, tuple[StageProgress, ...]] = field(default_factory=dict)
    silent: tuple[Silent, ...] = ()
    time_limit_ms: int = 2_000

    def silence_of(self, attempt: ExecutionAttemptId) -> Silent | None:
        """The Task of the attempt, where it was silent."""
        return next((each for each in self.silent if each.attempt == attempt), None)

    def silence_of_part(self, who: str) -> Silent | None:
        """An actor of the cluster or of the job, where it was silent."""
        return next((each for each in self.silent if each.who == who), None)
