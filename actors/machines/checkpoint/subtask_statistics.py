"""Measurements of the subtasks in a checkpoint. Mirrors Flink's TaskStateStats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flykka.messages.checkpointing.checkpoint import CheckpointMetrics
from flykka.messages.wire.ids import JobVertexId


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

    @classmethod
    def of(cls, values: Iterable[int]) -> MinMaxAvg:
        """Over all of these."""
        seen = tuple(values)
        return cls(count=len(seen), least=min(seen, default=0), greatest=max(seen, default=0), total=sum(seen))

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

    size_bytes: MinMaxAvg
    incremental_bytes: MinMaxAvg
    ack_ms: MinMaxAvg
    sync_ms: MinMaxAvg
    async_ms: MinMaxAvg
    processed_bytes: MinMaxAvg
    persisted_bytes: MinMaxAvg
    alignment_ms: MinMaxAvg
    start_delay_ms: MinMaxAvg


class TaskStateStats:
    """The subtasks of one vertex, each once. It grows while the checkpoint is under way."""

    def __init__(self, vertex_id: JobVertexId, parallelism: int) -> None:
        if parallelism < 1:
            raise ValueError(f"a vertex has at least one subtask, not {parallelism}")
        self.vertex_id = vertex_id
        self.parallelism = parallelism
        self.latest: SubtaskStateStats | None = None
        self._subtasks: dict[int, SubtaskStateStats] = {}

    @property
    def subtasks(self) -> Mapping[int, SubtaskStateStats]:
        """The subtasks that have acknowledged, by their number."""
        return self._subtasks

    @property
    def acknowledged(self) -> int:
        """The number that have acknowledged."""
        return len(self._subtasks)

    @property
    def metrics(self) -> Iterator[CheckpointMetrics]:
        """The metrics of those that have acknowledged."""
        return (stats.metrics for stats in self._subtasks.values())

    def summary(self) -> TaskStateStatsSummary:
        """Over those that have acknowledged. It looks at each of them: counters need none."""
        return TaskStateStatsSummary(
            size_bytes=MinMaxAvg.of(measured.size_bytes for measured in self.metrics),
            incremental_bytes=MinMaxAvg.of(measured.incremental_bytes for measured in self.metrics),
            ack_ms=MinMaxAvg.of(stats.ack_ms for stats in self._subtasks.values()),
            sync_ms=MinMaxAvg.of(measured.sync_ms for measured in self.metrics),
            async_ms=MinMaxAvg.of(measured.async_ms for measured in self.metrics),
            processed_bytes=MinMaxAvg.of(measured.bytes_processed_during_alignment for measured in self.metrics),
            persisted_bytes=MinMaxAvg.of(measured.bytes_persisted_during_alignment for measured in self.metrics),
            alignment_ms=MinMaxAvg.of(measured.alignment_ms for measured in self.metrics),
            start_delay_ms=MinMaxAvg.of(measured.start_delay_ms for measured in self.metrics),
        )

    def report(self, stats: SubtaskStateStats) -> bool:
        """A subtask has acknowledged; whether it is one of the vertex and has not done so before."""
        if not 0 <= stats.subtask < self.parallelism or stats.subtask in self._subtasks:
            return False
        self._subtasks[stats.subtask] = stats
        self.latest = stats
        return True

    def duration_ms(self, trigger_ms: int) -> int | None:
        """From when the checkpoint was triggered to the latest acknowledgement; None where there is none."""
        return None if self.latest is None else max(0, self.latest.ack_ms - trigger_ms)
