"""Counts of an attempt, a subtask or a vertex (Flink's IOMetricsInfo), and aggregates over subtasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flykka.messages.tasks.task import TaskIOMetrics

Json = dict[str, Any]


def io_metrics(counted: Iterable[TaskIOMetrics], *, is_complete: bool = True) -> Json:
    """The sum over attempts. Bytes are not counted: rows lie in Spark."""
    rows_in = rows_out = back_pressured = idle = busy = 0
    for each in counted:
        rows_in += each.rows_in
        rows_out += each.rows_out
        back_pressured += each.back_pressured_ms
        idle += each.idle_ms
        busy += each.busy_ms
    return {
        "read-bytes": 0,
        "read-bytes-complete": is_complete,
        "write-bytes": 0,
        "write-bytes-complete": is_complete,
        "read-records": rows_in,
        "read-records-complete": is_complete,
        "write-records": rows_out,
        "write-records-complete": is_complete,
        "accumulated-backpressured-time": back_pressured,
        "accumulated-idle-time": idle,
        "accumulated-busy-time": busy,
    }


def aggregated(subtasks: Sequence[Json]) -> Json:
    """Aggregates over subtasks, each with its `metrics` and its `status-duration`."""
    return {
        "metrics": _over([each["metrics"] for each in subtasks]),
        "status-duration": _over([each["status-duration"] for each in subtasks]),
    }


def _over(several: Sequence[Json]) -> Json:
    fields = [key for key in several[0] if not isinstance(several[0][key], bool)] if several else []
    return {key: summary_of([int(each[key]) for each in several]) for key in fields}


def summary_of(values: Sequence[int]) -> Json:
    """Least, greatest, average, sum and percentiles; zeros of nothing."""
    ordered = sorted(values) or [0]
    total = sum(ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": total // len(ordered),
        "sum": total,
        "median": percentile(ordered, 50),
        "p25": percentile(ordered, 25),
        "p75": percentile(ordered, 75),
        "p95": percentile(ordered, 95),
    }


def percentile(ordered: Sequence[int], percent: float) -> int:
    """The value of this percentile among ordered values, by nearest rank."""
    return ordered[max(0, -int(-percent * len(ordered) // 100) - 1)]
