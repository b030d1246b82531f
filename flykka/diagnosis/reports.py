"""Reports on one job: the knowledge of its client, and the replies of the job's actors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flykka.messages.monitoring import explanation
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.wire.ids import ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresponsiveActor:
    """An actor that has not replied to a request in time.

    `name` is its role ("the JobMaster") or the name of its task. `handles` is the message that it is handling, and
    `waiting` the number of messages that wait after it. `attempt` is set for a Task.
    """

    name: str
    handles: str | None = None
    waiting: int = 0
    attempt: ExecutionAttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorReports:
    """Reports on one job at `now_ms`. A report is None if the actor does not exist or has not replied.

    `details` come from the job's read model, or from its client if no actor can reply. Each actor had `time_limit_ms`
    to reply.
    """

    details: JobDetails
    now_ms: int
    leadership: explanation.LeadershipExplained | None = None
    job: explanation.JobExplained | None = None
    checkpoints: explanation.CheckpointsExplained | None = None
    slots: explanation.SlotsExplained | None = None
    tasks: Mapping[ExecutionAttemptId, explanation.TaskExplained] = field(default_factory=dict)
    stages: Mapping[ExecutionAttemptId, tuple[explanation.StageProgress, ...]] = field(default_factory=dict)
    unresponsive: tuple[UnresponsiveActor, ...] = ()
    time_limit_ms: int = 2_000

    @property
    def job_name(self) -> str:
        return self.details.name

    def unresponsive_task(self, attempt: ExecutionAttemptId) -> UnresponsiveActor | None:
        return next((each for each in self.unresponsive if each.attempt == attempt), None)

    def unresponsive_part(self, name: str) -> UnresponsiveActor | None:
        return next((each for each in self.unresponsive if each.name == name), None)
