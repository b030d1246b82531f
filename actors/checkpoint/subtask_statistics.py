"""What the subtasks measured while they took part in a checkpoint. Mirrors Flink's TaskStateStats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flykka.messages.checkpoint import CheckpointMetrics
from flykka.messages.ids import JobVertexId


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


NOTHING_SEEN = MinMaxAvg()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskStateStats:
    """One acknowledgement and what the subtask measured; `ack_ms` is when it came."""

    subtask: int
    ack_ms: int
    metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateStatsSummary:
    """Over the subtasks of a vertex that have acknowledged: times in ms, sizes in bytes."""

    size_bytes: MinMaxAvg = NOTHING_SEEN
    incremental_bytes: MinMaxAvg = NOTHING_SEEN
    ack_ms: MinMaxAvg = NOTHING_SEEN
    sync_ms: MinMaxAvg = NOTHING_SEEN
    async_ms: MinMaxAvg = NOTHING_SEEN
    processed_bytes: MinMaxAvg = NOTHING_SEEN
    persisted_bytes: MinMaxAvg = NOTHING_SEEN
    alignment_ms: MinMaxAvg = NOTHING_SEEN
    start_delay_ms: MinMaxAvg = NOTHING_SEEN

    def with_subtask(self, stats: SubtaskStateStats) -> TaskStateStatsSummary:
        """One more acknowledgement."""
        measured = stats.metrics
        return TaskStateStatsSummary(
            size_bytes=self.size_bytes.with_value(measured.size_bytes),
            incremental_bytes=self.incremental_bytes.with_value(measured.incremental_bytes),
            ack_ms=self.ack_ms.with_value(stats.ack_ms),
            sync_ms=self.sync_ms.with_value(measured.sync_ms),
            async_ms=self.async_ms.with_value(measured.async_ms),
            processed_bytes=self.processed_bytes.with_value(measured.bytes_processed_during_alignment),
            persisted_bytes=self.persisted_bytes.with_value(measured.bytes_persisted_during_alignment),
            alignment_ms=self.alignment_ms.with_value(measured.alignment_ms),
            start_delay_ms=self.start_delay_ms.with_value(measured.start_delay_ms),
        )


class TaskStateStats:
    """The subtasks of one vertex, each once. It grows while the checkpoint is under way."""

    def __init__(self, vertex_id: JobVertexId, parallelism: int) -> None:
        if parallelism < 1:
            raise ValueError(f"a vertex has at least one subtask, not {parallelism}")
        self.vertex_id = vertex_id
        self.parallelism = parallelism
        self.summary = TaskStateStatsSummary()
        self.latest: SubtaskStateStats | None = None
        self._subtasks: dict[int, SubtaskStateStats] = {}

    @property
    def subtasks(self) -> Mapping[int, SubtaskStateStats]:
        """Those that have acknowledged, by their number."""
        return self._subtasks

    @property
    def acknowledged(self) -> int:
        """How many have acknowledged."""
        return len(self._subtasks)

    def report(self, stats: SubtaskStateStats) -> bool:
        """A subtask has acknowledged; whether it is one of the vertex and has not done so before."""
        if not 0 <= stats.subtask < self.parallelism or stats.subtask in self._subtasks:
            return False
        self._subtasks[stats.subtask] = stats
        self.latest = stats
        self.summary = self.summary.with_subtask(stats)
        return True

    def duration_ms(self, trigger_ms: int) -> int | None:
        """From when the checkpoint was triggered to the latest acknowledgement; None where there is none."""
        return None if self.latest is None else max(0, self.latest.ack_ms - trigger_ms)
