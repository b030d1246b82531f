"""Statistics of a job's checkpoints. Mirrors Flink's CheckpointStatsTracker."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from flykka.actors.machines.checkpoint.plan import PlannedTask
from flykka.actors.machines.checkpoint.subtask_statistics import (
    NOTHING_SEEN,
    MinMaxAvg,
    SubtaskStateStats,
    TaskStateStats,
)
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointMetrics
from flykka.messages.wire.ids import JobVertexId


class CheckpointStatsStatus(StrEnum):
    """The status of a checkpoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStats:
    """One checkpoint: times in ms, sizes in bytes; `incremental_bytes` were written for it, the rest was there.

    `tasks` has the subtasks by vertex. It grows with each acknowledgement, late ones included.
    """

    checkpoint_id: int
    trigger_ms: int
    is_savepoint: bool = False
    status: CheckpointStatsStatus = CheckpointStatsStatus.IN_PROGRESS
    duration_ms: int = 0
    size_bytes: int = 0
    incremental_bytes: int = 0
    processed_bytes: int = 0
    persisted_bytes: int = 0
    reason: CheckpointDeclineReason | None = None
    path: str = ""
    tasks: Mapping[JobVertexId, TaskStateStats] = field(default_factory=dict, compare=False)

    @property
    def acknowledged(self) -> int:
        """The number of subtasks that have acknowledged."""
        return sum(task.acknowledged for task in self.tasks.values())

    def with_totals(self) -> CheckpointStats:
        """The same with the sums over all subtasks."""
        metrics = [measured for task in self.tasks.values() for measured in task.metrics]
        return replace(
            self,
            size_bytes=sum(measured.size_bytes for measured in metrics),
            incremental_bytes=sum(measured.incremental_bytes for measured in metrics),
            processed_bytes=sum(measured.bytes_processed_during_alignment for measured in metrics),
            persisted_bytes=sum(measured.bytes_persisted_during_alignment for measured in metrics),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatsCounts:
    """Counts of checkpoints by status; as a value, a snapshot is the counts themselves."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0

    def with_restored(self) -> CheckpointStatsCounts:
        """One more restore."""
        return replace(self, restored=self.restored + 1)

    def with_in_progress(self) -> CheckpointStatsCounts:
        """One more has begun."""
        return replace(self, total=self.total + 1, in_progress=self.in_progress + 1)

    def with_completed(self) -> CheckpointStatsCounts:
        """The counts after one in progress has completed."""
        return replace(self, in_progress=max(0, self.in_progress - 1), completed=self.completed + 1)

    def with_failed(self) -> CheckpointStatsCounts:
        """The counts after one in progress has failed."""
        return replace(self, in_progress=max(0, self.in_progress - 1), failed=self.failed + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpointStatsSummary:
    """Over all completed checkpoints of the job, savepoints included."""

    duration_ms: MinMaxAvg = NOTHING_SEEN
    size_bytes: MinMaxAvg = NOTHING_SEEN
    incremental_bytes: MinMaxAvg = NOTHING_SEEN
    processed_bytes: MinMaxAvg = NOTHING_SEEN
    persisted_bytes: MinMaxAvg = NOTHING_SEEN

    def with_completed(self, stats: CheckpointStats) -> CompletedCheckpointStatsSummary:
        """One more completed checkpoint."""
        return CompletedCheckpointStatsSummary(
            duration_ms=self.duration_ms.with_value(stats.duration_ms),
            size_bytes=self.size_bytes.with_value(stats.size_bytes),
            incremental_bytes=self.incremental_bytes.with_value(stats.incremental_bytes),
            processed_bytes=self.processed_bytes.with_value(stats.processed_bytes),
            persisted_bytes=self.persisted_bytes.with_value(stats.persisted_bytes),
        )


class CheckpointStatsHistory:
    """The last checkpoints, newest first; the oldest makes room, and what has made room is not taken up again."""

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"a history holds 0 checkpoints or more, not {size}")
        self._size = size
        self._stats: OrderedDict[int, CheckpointStats] = OrderedDict()

    def __contains__(self, checkpoint_id: int) -> bool:
        return checkpoint_id in self._stats

    def add(self, stats: CheckpointStats) -> None:
        """A checkpoint has begun."""
        self._stats[stats.checkpoint_id] = stats
        while len(self._stats) > self._size:
            self._stats.popitem(last=False)

    def get(self, checkpoint_id: int) -> CheckpointStats | None:
        """The statistics of a checkpoint that is still listed."""
        return self._stats.get(checkpoint_id)

    def replace(self, stats: CheckpointStats) -> bool:
        """A checkpoint has a new status; whether it is still listed."""
        listed = stats.checkpoint_id in self._stats
        if listed:
            self._stats[stats.checkpoint_id] = stats
        return listed

    def listed(self) -> tuple[CheckpointStats, ...]:
        """Newest first."""
        return tuple(reversed(self._stats.values()))


class CheckpointStatsTracker:
    """Counts, summary, history, and the latest of each kind."""

    def __init__(self, history_size: int = 10) -> None:
        self.counts = CheckpointStatsCounts()
        self.summary = CompletedCheckpointStatsSummary()
        self.history = CheckpointStatsHistory(history_size)
        self.latest_completed: CheckpointStats | None = None
        self.latest_savepoint: CheckpointStats | None = None
        self.latest_failed: CheckpointStats | None = None
        self.latest_restored_id: int | None = None
        self._in_progress: dict[int, CheckpointStats] = {}

    def lookup(self, checkpoint_id: int) -> CheckpointStats | None:
        """One checkpoint: in progress, listed, or among the latest."""
        known = self._in_progress.get(checkpoint_id) or self.history.get(checkpoint_id)
        latest = (self.latest_completed, self.latest_savepoint, self.latest_failed)
        return known or next((stats for stats in latest if stats and stats.checkpoint_id == checkpoint_id), None)

    def report_pending(
        self, checkpoint_id: int, trigger_ms: int, *, is_savepoint: bool = False, tasks: Iterable[PlannedTask] = ()
    ) -> None:
        """A checkpoint has begun, and waits for these tasks."""
        vertices = {task.vertex_id: task.parallelism for task in tasks}
        stats = CheckpointStats(
            checkpoint_id=checkpoint_id,
            trigger_ms=trigger_ms,
            is_savepoint=is_savepoint,
            tasks={vertex: TaskStateStats(vertex, parallelism) for vertex, parallelism in vertices.items()},
        )
        self._in_progress[checkpoint_id] = stats
        self.history.add(stats)
        self.counts = self.counts.with_in_progress()

    def report_subtask(self, checkpoint_id: int, task: PlannedTask, ack_ms: int, metrics: CheckpointMetrics) -> None:
        """A subtask has acknowledged, in time or late."""
        stats = self.lookup(checkpoint_id)
        if stats is not None and task.vertex_id in stats.tasks:
            measured = SubtaskStateStats(subtask=task.subtask, ack_ms=ack_ms, metrics=metrics)
            stats.tasks[task.vertex_id].report(measured)

    def report_completed(self, checkpoint_id: int, now: int, path: str = "") -> CheckpointStats:
        """A checkpoint is complete: its final figures."""
        begun = self._in_progress.pop(checkpoint_id)
        status = CheckpointStatsStatus.COMPLETED
        stats = replace(begun.with_totals(), status=status, duration_ms=now - begun.trigger_ms, path=path)
        self.history.replace(stats)
        self.counts = self.counts.with_completed()
        self.summary = self.summary.with_completed(stats)
        if stats.is_savepoint:
            self.latest_savepoint = _newer(self.latest_savepoint, stats)
        else:
            self.latest_completed = _newer(self.latest_completed, stats)
        return stats

    def report_failed(self, checkpoint_id: int, now: int, reason: CheckpointDeclineReason) -> None:
        """A checkpoint was given up."""
        begun = self._in_progress.pop(checkpoint_id)
        status = CheckpointStatsStatus.FAILED
        stats = replace(begun.with_totals(), status=status, duration_ms=now - begun.trigger_ms, reason=reason)
        self.history.replace(stats)
        self.counts = self.counts.with_failed()
        self.latest_failed = _newer(self.latest_failed, stats)

    def report_restored(self, checkpoint_id: int) -> None:
        """The job was restored from a checkpoint."""
        self.counts = self.counts.with_restored()
        self.latest_restored_id = checkpoint_id


def _newer(one: CheckpointStats | None, other: CheckpointStats) -> CheckpointStats:
    return other if one is None or other.checkpoint_id > one.checkpoint_id else one
