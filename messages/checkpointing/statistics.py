"""Statistics of checkpoints, as the CheckpointCoordinator reports them and as clients get them.

The names are those of Flink's CheckpointStatsTracker and its REST API.
"""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CheckpointFailure,
    CheckpointMetrics,
)
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message, Value, message, value


class CheckpointStatsStatus(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@value("checkpoint_statistics.summary")
class StatsSummary(Value):
    """An aggregate over a vertex's subtasks or over checkpoints (Flink's StatsSummaryDto). The average is truncated."""

    minimum: int
    maximum: int
    average: int


@value("checkpoint_statistics.vertex")
class VertexCheckpointStatistics(Value):
    """A vertex in a checkpoint: sums over its subtasks in bytes, and durations in ms.

    `duration_ms` is the time from the trigger of the checkpoint to the vertex's last acknowledgement.
    """

    vertex_id: JobVertexId
    parallelism: int
    acknowledged: int
    duration_ms: int
    size_bytes: int
    incremental_bytes: int
    processed_bytes: int
    persisted_bytes: int
    start_delay_ms: StatsSummary
    alignment_ms: StatsSummary
    sync_ms: StatsSummary
    async_ms: StatsSummary


@value("checkpoint_statistics.subtask")
class SubtaskCheckpointStatistics(Value):
    """An acknowledgement: the time of its arrival and the metrics of the subtask."""

    vertex_id: JobVertexId
    subtask: int
    ack_ms: int
    metrics: CheckpointMetrics = CheckpointMetrics()


@message("checkpoint_statistics.triggered")
class CheckpointTriggered(Message):
    """CheckpointCoordinator -> ExecutionGraphInfoStore: a checkpoint is in progress, waiting for this many subtasks."""

    job_id: JobId
    checkpoint_id: int
    timestamp_ms: int
    num_subtasks: int
    is_savepoint: bool = False


@message("checkpoint_statistics.acknowledged")
class SubtasksAcknowledged(Message):
    """CheckpointCoordinator -> ExecutionGraphInfoStore: the acknowledgements of a checkpoint since the last report."""

    job_id: JobId
    checkpoint_id: int
    subtasks: tuple[SubtaskCheckpointStatistics, ...]


@message("checkpoint_statistics.report_due")
class CheckpointReportDue(Message):
    """CheckpointCoordinator's timer -> itself: report the acknowledgements since the last report."""


@value("checkpoint_statistics.checkpoint")
class CheckpointStatistics(Value):
    """A checkpoint. Times are in ms and sizes in bytes; `incremental_bytes` were written for this checkpoint, all other
    bytes existed before.

    While it is in progress, `ended_ms` is 0. `num_acknowledged_subtasks` of `num_subtasks` have acknowledged; the sizes
    of a failed checkpoint are the sums over these subtasks. Only a completed checkpoint has a path and `vertices`. Only
    a failed one has a reason, and a `failure` unless the coordinator itself aborted it.
    """

    checkpoint_id: int
    status: CheckpointStatsStatus
    ended_ms: int = 0
    duration_ms: int = 0
    size_bytes: int = 0
    incremental_bytes: int = 0
    path: str | None = None
    reason: CheckpointDeclineReason | None = None
    vertices: tuple[VertexCheckpointStatistics, ...] = ()
    trigger_ms: int = 0
    is_savepoint: bool = False
    num_subtasks: int = 0
    num_acknowledged_subtasks: int = 0
    processed_bytes: int = 0
    persisted_bytes: int = 0
    failure: CheckpointFailure | None = None

    @property
    def failure_text(self) -> str:
        """The failure in one line. Empty unless the checkpoint has failed."""
        return str(self.failure or self.reason or "")


@value("checkpoint_statistics.counts")
class CheckpointStatsCounts(Value):
    """Counts of restores, and of checkpoints in total and by status."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


@value("checkpoint_statistics.completed")
class CompletedCheckpointStatsSummary(Value):
    """A summary of all completed checkpoints of the job, including savepoints."""

    duration_ms: StatsSummary
    size_bytes: StatsSummary
    incremental_bytes: StatsSummary
    processed_bytes: StatsSummary
    persisted_bytes: StatsSummary


@message("checkpoint_statistics.snapshot")
class CheckpointStatsSnapshot(Message):
    """ExecutionGraphInfoStore -> client: the checkpoints of a job, including those in progress, newest first.

    The latest checkpoint of each type is the one with the highest id. `latest_restored` is the id from which the job
    was last restored.
    """

    job_id: JobId
    counts: CheckpointStatsCounts
    summary: CompletedCheckpointStatsSummary
    history: tuple[CheckpointStatistics, ...]
    latest_completed: CheckpointStatistics | None = None
    latest_savepoint: CheckpointStatistics | None = None
    latest_failed: CheckpointStatistics | None = None
    latest_restored: int | None = None
