"""Aggregates over the subtasks of a vertex: their state, their watermark, their latency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flykka.messages.monitoring.job_details import Latency
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.task import ExecutionState, LatencyStatistics


def aggregate_state(subtasks: Mapping[ExecutionState, int]) -> ExecutionState:
    """The state that stands for all subtasks of a vertex (Flink's ExecutionJobVertex.getAggregateJobVertexState)."""
    for state in (
        ExecutionState.FAILED,
        ExecutionState.CANCELING,
        ExecutionState.CANCELED,
        ExecutionState.RUNNING,
    ):
        if subtasks.get(state):
            return state
    if finished := subtasks.get(ExecutionState.FINISHED):
        return ExecutionState.FINISHED if finished == sum(subtasks.values()) else ExecutionState.RUNNING
    return ExecutionState.CREATED


def least_watermark(watermarks: Iterable[int | None]) -> int | None:
    """The least of the subtasks' watermarks; None while one of them has none, or where there are no subtasks."""
    known = [WATERMARK_MIN if watermark is None else watermark for watermark in watermarks]
    least = min(known, default=WATERMARK_MIN)
    return None if least == WATERMARK_MIN else least


def slowest(latencies: Iterable[LatencyStatistics]) -> Latency | None:
    """The way whose median is the greatest; None where there is none."""
    slow = max(latencies, key=lambda way: (way.median_ms, way.p99_ms), default=None)
    return None if slow is None else Latency(median_ms=slow.median_ms, p99_ms=slow.p99_ms)


def event_time_has_ended(watermark_ms: int | None) -> bool:
    """True if this is the watermark behind the last row."""
    return watermark_ms == WATERMARK_MAX
