"""Measurements of a vertex's subtasks in a checkpoint, as listeners of a job get them."""

from __future__ import annotations

from flykka.messages.wire.ids import JobVertexId
from flykka.messages.wire.message import Value, value


@value("checkpoint_statistics.summary")
class StatsSummary(Value):
    """Over the subtasks of a vertex (Flink's StatsSummaryDto); the average is rounded down."""

    minimum: int
    maximum: int
    average: int


@value("checkpoint_statistics.vertex")
class VertexCheckpointStatistics(Value):
    """A vertex in a checkpoint: sums over its subtasks in bytes, and how long they took, in ms.

    `duration_ms` is from when the checkpoint was triggered to the vertex's last acknowledgement.
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
