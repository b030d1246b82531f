"""Reports of the actors of a job (a source, and a window of parallelism two) forty seconds after its start."""

from __future__ import annotations

from dataclasses import replace

from flykka.diagnosis.reports import ActorReports, UnresponsiveActor
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import (
    AttemptExplained,
    ChannelExplained,
    CheckpointsExplained,
    JobExplained,
    OutputExplained,
    PendingExplained,
    SlotsExplained,
    StageExplained,
    StageProgress,
    TaskExplained,
)
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import (
    ExecutionAttemptId,
    JobId,
    JobVertexId,
    ResultPartitionId,
    TaskManagerId,
    attempt_id,
    partition_id,
)

JOB = JobId("job-1")
NOW = 100_000
BEGAN = 60_000
BUG = SerializedThrowable(type_name="ValueError", message="operator 'taxed': no price may be 26\n  File app.py")

SOURCE = attempt_id(JOB, JobVertexId("source"), 0, 0)
WINDOW_1 = attempt_id(JOB, JobVertexId("window"), 0, 0)
WINDOW_2 = attempt_id(JOB, JobVertexId("window"), 1, 0)
OUT: ResultPartitionId = partition_id(SOURCE, 0)


def attempt(
    name: ExecutionAttemptId, state: ExecutionState = ExecutionState.RUNNING, *, has_slot: bool = True
) -> AttemptExplained:
    _, vertex, subtask, _ = name.rsplit("_", 3)
    return AttemptExplained(
        attempt=name,
        vertex_id=JobVertexId(vertex),
        subtask=int(subtask),
        name=f"{vertex} ({int(subtask) + 1}/{1 if vertex == 'source' else 2})",
        state=state,
        since_ms=BEGAN,
        task_manager_id=TaskManagerId("task-manager-1") if has_slot else None,
    )


def job(status: JobStatus = JobStatus.RUNNING, **more: object) -> JobExplained:
    attempts = tuple(attempt(name) for name in (SOURCE, WINDOW_1, WINDOW_2))
    made = JobExplained(job_id=JOB, now_ms=NOW, status=status, since_ms=BEGAN, attempts=attempts)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of JobExplained


def task(name: ExecutionAttemptId, **more: object) -> TaskExplained:
    made = TaskExplained(
        attempt=name, now_ms=NOW, state=ExecutionState.RUNNING, activity="idle", activity_since_ms=NOW - 3_000
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields of TaskExplained


def at_stage(purpose: str = "processes a batch", since_ms: int = NOW - 41_000) -> tuple[StageExplained, ...]:
    return (StageExplained(purpose=purpose, since_ms=since_ms),)


def channel(subpartition: int, **more: object) -> ChannelExplained:
    made = ChannelExplained(partition_id=OUT, subpartition=subpartition, state="reading", queued=0, credit=2)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of ChannelExplained


def full_output(subpartition: int) -> OutputExplained:
    return OutputExplained(partition_id=OUT, subpartition=subpartition, queued=3, credit=0, is_full=True)


def spark(done: int = 3, of: int = 8, **more: object) -> tuple[StageProgress, ...]:
    made = StageProgress(
        what="stage 'merge'", since_ms=NOW - 41_000, tasks=of, tasks_done=done, progress_ms=NOW - 1_000
    )
    return (replace(made, **more),)  # type: ignore[arg-type]  # fields of StageProgress


def pending(*awaited: ExecutionAttemptId, since_ms: int = NOW - 41_000, phase: str = "tasks") -> CheckpointsExplained:
    checkpoint = PendingExplained(checkpoint_id=7, since_ms=since_ms, phase=phase, awaited=awaited, acknowledged=1)
    return CheckpointsExplained(job_id=JOB, now_ms=NOW, pending=(checkpoint,))


def details(status: JobStatus = JobStatus.RUNNING, **more: object) -> JobDetails:
    completed = CheckpointStatistics(
        checkpoint_id=6, status=CheckpointStatsStatus.COMPLETED, ended_ms=NOW - 52_000, path="/c/chk-6"
    )
    made = JobDetails(
        job_id=JOB,
        name="prices",
        status=status,
        started_ms=BEGAN,
        duration_ms=NOW - BEGAN,
        vertices=(),
        checkpoints=(completed,),
        checkpoints_completed=6,
        checkpoints_failed=0,
        last_completed=completed,
        restored_checkpoint=None,
        restarts=(),
        last_failure=None,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields of JobDetails


SLOTS = SlotsExplained(
    now_ms=NOW, task_managers=(TaskManagerId("task-manager-1"),), slots=2, free=0, pending_requests=1
)


def answers(*tasks: TaskExplained, **more: object) -> ActorReports:
    made = ActorReports(
        details=details(),
        now_ms=NOW,
        job=job(),
        tasks={each.attempt: each for each in tasks},
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields of ActorReports


def silent(who: str, attempt: ExecutionAttemptId | None = None) -> UnresponsiveActor:
    return UnresponsiveActor(name=who, handles="TriggerCheckpoint", waiting=14, attempt=attempt)
