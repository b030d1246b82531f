"""What happened to the checkpoints of a job, for those who watch. Mirrors Flink's CheckpointStatsTracker."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import StrEnum

from flykka.messages.checkpoint import CheckpointDeclineReason


class CheckpointStatsStatus(StrEnum):
    """Where a checkpoint is in its life."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStats:
    """One checkpoint: times in ms, sizes in bytes; `incremental_bytes` were written for it, the rest was there."""

    checkpoint_id: int
    trigger_ms: int
    is_savepoint: bool = False
    status: CheckpointStatsStatus = CheckpointStatsStatus.IN_PROGRESS
    duration_ms: int = 0
    size_bytes: int = 0
    incremental_bytes: int = 0
    reason: CheckpointDeclineReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatsCounts:
    """How many checkpoints came to what; as a value, a snapshot is the counts themselves."""

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
        """One that was in progress has completed."""
        return replace(self, in_progress=max(0, self.in_progress - 1), completed=self.completed + 1)

    def with_failed(self) -> CheckpointStatsCounts:
        """One that was in progress has failed."""
        return replace(self, in_progress=max(0, self.in_progress - 1), failed=self.failed + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMaxAvg:
    """Least, greatest and sum of the values seen."""

    count: int = 0
    least: int = 0
    greatest: int = 0
    total: int = 0

    @property
    def average(self) -> int:
        """The mean, rounded down; 0 where nothing was seen."""
        return self.total // self.count if self.count else 0

    def with_value(self, value: int) -> MinMaxAvg:
        """One more value."""
        return MinMaxAvg(
            count=self.count + 1,
            least=min(self.least, value) if self.count else value,
            greatest=max(self.greatest, value) if self.count else value,
            total=self.total + value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpointStatsSummary:
    """Over all completed checkpoints of the job, savepoints included."""

    duration_ms: MinMaxAvg = MinMaxAvg()
    size_bytes: MinMaxAvg = MinMaxAvg()
    incremental_bytes: MinMaxAvg = MinMaxAvg()

    def with_completed(self, stats: CheckpointStats) -> CompletedCheckpointStatsSummary:
        """One more completed checkpoint."""
        return CompletedCheckpointStatsSummary(
            duration_ms=self.duration_ms.with_value(stats.duration_ms),
            size_bytes=self.size_bytes.with_value(stats.size_bytes),
            incremental_bytes=self.incremental_bytes.with_value(stats.incremental_bytes),
        )


class CheckpointStatsHistory:
    """The last checkpoints, newest first; the oldest makes room, and what has made room is not taken up again."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._stats: OrderedDict[int, CheckpointStats] = OrderedDict()

    def add(self, stats: CheckpointStats) -> None:
        """A checkpoint has begun."""
        self._stats[stats.checkpoint_id] = stats
        while len(self._stats) > self._size:
            self._stats.popitem(last=False)

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
        """One checkpoint: among the latest, in progress or listed."""
        latest = (self.latest_completed, self.latest_savepoint, self.latest_failed)
        known = (*latest, *self._in_progress.values(), *self.history.listed())
        return next((stats for stats in known if stats and stats.checkpoint_id == checkpoint_id), None)

    def report_pending(self, checkpoint_id: int, trigger_ms: int, *, is_savepoint: bool = False) -> None:
        """A checkpoint has begun."""
        stats = CheckpointStats(checkpoint_id=checkpoint_id, trigger_ms=trigger_ms, is_savepoint=is_savepoint)
        self._in_progress[checkpoint_id] = stats
        self.history.add(stats)
        self.counts = self.counts.with_in_progress()

    def report_completed(
        self, checkpoint_id: int, now: int, *, size_bytes: int, incremental_bytes: int
    ) -> CheckpointStats:
        """A checkpoint is complete: its final figures."""
        begun = self._in_progress.pop(checkpoint_id)
        stats = replace(
            begun,
            status=CheckpointStatsStatus.COMPLETED,
            duration_ms=now - begun.trigger_ms,
            size_bytes=size_bytes,
            incremental_bytes=incremental_bytes,
        )
        self.history.replace(stats)
        self.counts = self.counts.with_completed()
        self.summary = self.summary.with_completed(stats)
        if stats.is_savepoint:
            self.latest_savepoint = stats
        else:
            self.latest_completed = stats
        return stats

    def report_failed(self, checkpoint_id: int, now: int, reason: CheckpointDeclineReason) -> None:
        """A checkpoint was given up."""
        begun = self._in_progress.pop(checkpoint_id)
        stats = replace(begun, status=CheckpointStatsStatus.FAILED, duration_ms=now - begun.trigger_ms, reason=reason)
        self.history.replace(stats)
        self.counts = self.counts.with_failed()
        self.latest_failed = stats

    def report_restored(self, checkpoint_id: int) -> None:
        """The job was restored from a checkpoint."""
        self.counts = self.counts.with_restored()
        self.latest_restored_id = checkpoint_id
