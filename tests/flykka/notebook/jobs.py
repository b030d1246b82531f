"""Job details for displays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.job_details import (
    CheckpointStatistics,
    JobDetails,
    JobVertexDetails,
    Restart,
    SubtaskCount,
    TimeShares,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId
from tests.flykka.console.pictures import DETAILS

LOST = SerializedThrowable(type_name="flykka.SlotLostError", message="task-manager-2 is lost\nits actor has ended")

SOURCE = JobVertexDetails(
    vertex_id=JobVertexId("source"),
    name="Source: flights",
    parallelism=1,
    sources=("flights",),
    sinks=(),
    state=ExecutionState.RUNNING,
    subtask_counts=(SubtaskCount(state=ExecutionState.RUNNING, count=1),),
    rows_in=120_000,
    rows_out=119_400,
    rows_in_per_second=8_419.4,
    shares=TimeShares(busy=0.62, back_pressured=0.11, idle=0.27),
)

WINDOWS = JobVertexDetails(
    vertex_id=JobVertexId("windows"),
    name="delays per origin and hour -> Sink: output folder",
    parallelism=2,
    sources=(),
    sinks=("output folder",),
    state=ExecutionState.RUNNING,
    subtask_counts=tuple(
        SubtaskCount(state=state, count=1) for state in (ExecutionState.RUNNING, ExecutionState.FINISHED)
    ),
    rows_in=118_000,
    rows_out=6_900,
    rows_published=6_500,
    rows_staged=400,
    rows_in_per_second=8_112.0,
    watermark_ms=1_362_373_200_000,
    watermark_lag_ms=90_061_000,
    shares=TimeShares(busy=0.34, back_pressured=0.0, idle=0.66),
)


def completed_statistics(checkpoint: int) -> CheckpointStatistics:
    return CheckpointStatistics(
        checkpoint_id=checkpoint,
        status=CheckpointStatsStatus.COMPLETED,
        ended_ms=5_000 + checkpoint,
        duration_ms=415,
        size_bytes=5_837,
        incremental_bytes=1_024,
        path=f"/checkpoints/chk-{checkpoint}",
    )


def failed_statistics(checkpoint: int) -> CheckpointStatistics:
    return CheckpointStatistics(
        checkpoint_id=checkpoint,
        status=CheckpointStatsStatus.FAILED,
        ended_ms=5_000 + checkpoint,
        reason=CheckpointDeclineReason.JOB_FAILOVER_REGION,
    )


NEW = replace(
    DETAILS,
    job_id=JobId("5f2d"),
    name="flights",
    status=JobStatus.CREATED,
    started_ms=None,
    duration_ms=0,
    vertices=(replace(SOURCE, state=ExecutionState.CREATED, subtask_counts=(), rows_in=0, rows_out=0, shares=None),),
)

RESTARTED = replace(
    NEW,
    status=JobStatus.RUNNING,
    started_ms=1_000,
    duration_ms=14_300,
    vertices=(SOURCE, WINDOWS),
    checkpoints=(*map(completed_statistics, range(1, 7)), failed_statistics(7)),
    checkpoints_completed=6,
    checkpoints_failed=1,
    last_completed=completed_statistics(6),
    restored_checkpoint=6,
    restarts=(Restart(at_ms=9_400, cause=LOST),),
    number_of_restarts=1,
    last_failure=LOST,
)


def job_details(**changes: Any) -> JobDetails:
    """Return a job that runs after a restart, with `changes`."""
    return replace(RESTARTED, **changes)
