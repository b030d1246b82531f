"""Statistics of a job's checkpoints, from the reports of the CheckpointCoordinator: counts, summary, history, latest.

Mirrors Flink's CheckpointStatsTracker with its CheckpointStatsHistory, but is separate from the coordinator, whose
decisions do not depend on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsCounts,
    CheckpointStatsSnapshot,
    CheckpointStatsStatus,
    CheckpointTriggered,
    CompletedCheckpointStatsSummary,
    StatsSummary,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
    VertexCheckpointStatistics,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobRestored
from flykka.messages.monitoring.job_details import CHECKPOINT_HISTORY, CheckpointDetails
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message

SUBTASK_HISTORY = 10
"""The number of ended checkpoints whose subtasks are retained (Flink's web.checkpoints.history)."""

_FIGURES = ("duration_ms", "size_bytes", "incremental_bytes", "processed_bytes", "persisted_bytes")

Subtasks = dict[tuple[JobVertexId, int], SubtaskCheckpointStatistics]


class CheckpointStatsTracker:
    """Tracks the checkpoints of one job. `vertices` has the parallelism of each vertex.

    An acknowledgement costs constant time. The sums of a checkpoint are computed once, when it is complete.
    """

    def __init__(self, vertices: Mapping[JobVertexId, int], history_size: int = CHECKPOINT_HISTORY) -> None:
        if history_size < 0:
            raise ValueError(f"the size of the checkpoint history must be 0 or more, not {history_size}")
        self._vertices = dict(vertices)
        self._history_size = history_size
        self.counts = CheckpointStatsCounts()
        self._seen = {figure: _MinMaxAvg() for figure in _FIGURES}
        self._in_progress: dict[int, CheckpointStatistics] = {}
        self._history: OrderedDict[int, CheckpointStatistics] = OrderedDict()
        """The listed checkpoints in trigger order, including those in progress."""
        self._subtasks: dict[int, Subtasks] = {}
        """The subtasks of the checkpoints in progress and of the last ended checkpoints, which are ordered by end time.
        """
        self.latest_completed: CheckpointStatistics | None = None
        self.latest_savepoint: CheckpointStatistics | None = None
        self.latest_failed: CheckpointStatistics | None = None
        self.latest_restored: int | None = None

    @property
    def in_progress(self) -> tuple[CheckpointStatistics, ...]:
        return tuple(map(self._present, self._in_progress.values()))

    def rescale(self, vertices: Mapping[JobVertexId, int]) -> None:
        self._vertices.update(vertices)

    @property
    def last_completed(self) -> CheckpointStatistics | None:
        both = [stats for stats in (self.latest_completed, self.latest_savepoint) if stats is not None]
        return max(both, key=lambda stats: stats.checkpoint_id, default=None)

    @property
    def last_acknowledged(self) -> Subtasks:
        return {} if self.latest_completed is None else self._subtasks.get(self.latest_completed.checkpoint_id, {})

    @property
    def history(self) -> tuple[CheckpointStatistics, ...]:
        """The listed checkpoints, in progress or ended, newest first."""
        return tuple(map(self._present, reversed(self._history.values())))

    def ended(self, limit: int) -> tuple[CheckpointStatistics, ...]:
        newest: list[CheckpointStatistics] = []
        for stats in reversed(self._history.values()):
            if len(newest) >= limit:
                break
            if stats.status is not CheckpointStatsStatus.IN_PROGRESS:
                newest.append(stats)
        return tuple(reversed(newest))

    def lookup(self, checkpoint_id: int) -> CheckpointStatistics | None:
        stats = self._in_progress.get(checkpoint_id) or self._history.get(checkpoint_id)
        latest = (self.latest_completed, self.latest_savepoint, self.latest_failed)
        stats = stats or next((each for each in latest if each and each.checkpoint_id == checkpoint_id), None)
        return None if stats is None else self._present(stats)

    def details(self, job_id: JobId, checkpoint_id: int) -> CheckpointDetails:
        return CheckpointDetails(
            job_id=job_id,
            checkpoint=self.lookup(checkpoint_id),
            subtasks=tuple(self._subtasks.get(checkpoint_id, {}).values()),
        )

    def with_subtasks(self, job_id: JobId) -> tuple[CheckpointDetails, ...]:
        return tuple(self.details(job_id, checkpoint_id) for checkpoint_id in self._subtasks)

    def snapshot(self, job_id: JobId) -> CheckpointStatsSnapshot:
        return CheckpointStatsSnapshot(
            job_id=job_id,
            counts=self.counts,
            summary=CompletedCheckpointStatsSummary(
                **{figure: values.summary() for figure, values in self._seen.items()}
            ),
            history=self.history,
            latest_completed=self.latest_completed,
            latest_savepoint=self.latest_savepoint,
            latest_failed=self.latest_failed,
            latest_restored=self.latest_restored,
        )

    # Messages

    def on_message(self, message: Message) -> None:
        match message:
            case CheckpointTriggered():
                self._on_triggered(message)
            case SubtasksAcknowledged():
                self._on_acknowledged(message)
            case CheckpointCompleted():
                self._on_completed(message)
            case CheckpointAborted(checkpoint_id=checkpoint_id, timestamp_ms=ended_ms, reason=reason):
                self._abort(checkpoint_id, ended_ms, reason, message.failure)
            case JobRestored(checkpoint_id=int() as checkpoint_id):
                self.counts = replace(self.counts, restored=self.counts.restored + 1)
                self.latest_restored = checkpoint_id
            case _:
                pass

    def _on_triggered(self, message: CheckpointTriggered) -> None:
        stats = CheckpointStatistics(
            checkpoint_id=message.checkpoint_id,
            status=CheckpointStatsStatus.IN_PROGRESS,
            trigger_ms=message.timestamp_ms,
            is_savepoint=message.is_savepoint,
            num_subtasks=message.num_subtasks,
        )
        self._in_progress[stats.checkpoint_id] = stats
        self._subtasks[stats.checkpoint_id] = {}
        self._list(stats)
        self.counts = replace(self.counts, total=self.counts.total + 1, in_progress=self.counts.in_progress + 1)

    def _on_acknowledged(self, message: SubtasksAcknowledged) -> None:
        """Record acknowledgements, in time or late. Ignored if the checkpoint's subtasks are no longer retained."""
        subtasks = self._subtasks.get(message.checkpoint_id)
        if subtasks is not None:
            for subtask in message.subtasks:
                subtasks.setdefault((subtask.vertex_id, subtask.subtask), subtask)

    def _on_completed(self, message: CheckpointCompleted) -> None:
        started = self._begun(message.checkpoint_id, message.timestamp_ms - message.duration_ms)
        stats = replace(
            started,
            status=CheckpointStatsStatus.COMPLETED,
            ended_ms=message.timestamp_ms,
            duration_ms=message.duration_ms,
            size_bytes=message.size_bytes,
            incremental_bytes=message.incremental_bytes,
            path=message.path,
            vertices=tuple(self._measured(started)),
        )
        self.counts = replace(self.counts, completed=self.counts.completed + 1)
        for figure, summary in self._seen.items():
            summary.add(getattr(stats, figure))
        if stats.is_savepoint:
            self.latest_savepoint = _newer(self.latest_savepoint, stats)
        else:
            self.latest_completed = _newer(self.latest_completed, stats)
        self._end(stats)

    def on_coordinator_lost(self, now: int) -> None:
        for checkpoint_id in list(self._in_progress):
            self._abort(checkpoint_id, now, CheckpointDeclineReason.COORDINATOR_SHUTDOWN)

    def _abort(
        self,
        checkpoint_id: int,
        ended_ms: int,
        reason: CheckpointDeclineReason,
        failure: CheckpointFailure | None = None,
    ) -> None:
        started = self._begun(checkpoint_id, ended_ms)
        stats = replace(
            started,
            status=CheckpointStatsStatus.FAILED,
            ended_ms=ended_ms,
            duration_ms=ended_ms - started.trigger_ms,
            reason=reason,
            failure=failure,
        )
        self.counts = replace(self.counts, failed=self.counts.failed + 1)
        self.latest_failed = _newer(self.latest_failed, stats)
        self._end(stats)

    def _begun(self, checkpoint_id: int, trigger_ms: int) -> CheckpointStatistics:
        """Remove and return a checkpoint in progress. If its start was never reported, create it with `trigger_ms`."""
        started = self._in_progress.pop(checkpoint_id, None)
        if started is not None:
            self.counts = replace(self.counts, in_progress=self.counts.in_progress - 1)
            return self._present(started)
        stats = CheckpointStatistics(
            checkpoint_id=checkpoint_id, status=CheckpointStatsStatus.IN_PROGRESS, trigger_ms=trigger_ms
        )
        self._list(stats)
        return stats

    def _end(self, stats: CheckpointStatistics) -> None:
        if stats.checkpoint_id in self._history:
            self._history[stats.checkpoint_id] = stats
        if stats.checkpoint_id in self._subtasks:
            # Move the entry to the end, so that the subtasks are ordered by end time.
            self._subtasks[stats.checkpoint_id] = self._subtasks.pop(stats.checkpoint_id)
        ended = [each for each in self._subtasks if each not in self._in_progress]
        for oldest in ended[:-SUBTASK_HISTORY]:
            del self._subtasks[oldest]

    def _list(self, stats: CheckpointStatistics) -> None:
        self._history[stats.checkpoint_id] = stats
        while len(self._history) > self._history_size:
            self._history.popitem(last=False)

    def _present(self, stats: CheckpointStatistics) -> CheckpointStatistics:
        """Add the sums over the acknowledged subtasks. Late subtasks do not change the sizes of an ended checkpoint."""
        if stats.checkpoint_id not in self._subtasks:
            return stats
        subtasks = self._subtasks[stats.checkpoint_id].values()
        if stats.status is not CheckpointStatsStatus.IN_PROGRESS:
            return replace(stats, num_acknowledged_subtasks=len(subtasks))
        measured = [subtask.metrics for subtask in subtasks]
        return replace(
            stats,
            num_acknowledged_subtasks=len(measured),
            size_bytes=sum(each.size_bytes for each in measured),
            incremental_bytes=sum(each.incremental_bytes for each in measured),
            processed_bytes=sum(each.bytes_processed_during_alignment for each in measured),
            persisted_bytes=sum(each.bytes_persisted_during_alignment for each in measured),
        )

    def _measured(self, stats: CheckpointStatistics) -> Iterator[VertexCheckpointStatistics]:
        by_vertex: dict[JobVertexId, list[SubtaskCheckpointStatistics]] = {}
        for subtask in self._subtasks.get(stats.checkpoint_id, {}).values():
            by_vertex.setdefault(subtask.vertex_id, []).append(subtask)
        for vertex_id, subtasks in by_vertex.items():
            measured = [subtask.metrics for subtask in subtasks]
            yield VertexCheckpointStatistics(
                vertex_id=vertex_id,
                parallelism=self._vertices.get(vertex_id, len(subtasks)),
                acknowledged=len(subtasks),
                duration_ms=max(0, max(subtask.ack_ms for subtask in subtasks) - stats.trigger_ms),
                size_bytes=sum(each.size_bytes for each in measured),
                incremental_bytes=sum(each.incremental_bytes for each in measured),
                processed_bytes=sum(each.bytes_processed_during_alignment for each in measured),
                persisted_bytes=sum(each.bytes_persisted_during_alignment for each in measured),
                start_delay_ms=_summary([each.start_delay_ms for each in measured]),
                alignment_ms=_summary([each.alignment_ms for each in measured]),
                sync_ms=_summary([each.sync_ms for each in measured]),
                async_ms=_summary([each.async_ms for each in measured]),
            )


class _MinMaxAvg:
    def __init__(self) -> None:
        self._count = self._least = self._greatest = self._total = 0

    def add(self, value: int) -> None:
        self._least = min(self._least, value) if self._count else value
        self._greatest = max(self._greatest, value) if self._count else value
        self._count += 1
        self._total += value

    def summary(self) -> StatsSummary:
        average = self._total // self._count if self._count else 0
        return StatsSummary(minimum=self._least, maximum=self._greatest, average=average)


def _summary(values: list[int]) -> StatsSummary:
    return StatsSummary(minimum=min(values), maximum=max(values), average=sum(values) // len(values))


def _newer(one: CheckpointStatistics | None, other: CheckpointStatistics) -> CheckpointStatistics:
    return other if one is None or other.checkpoint_id > one.checkpoint_id else one
