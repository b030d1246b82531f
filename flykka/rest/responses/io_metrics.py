"""Metrics of attempts, subtasks and vertices (Flink's IOMetricsInfo), aggregates over subtasks, times of attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.messages.monitoring.job_details import AttemptDetails, SubtaskCount
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics

Json = dict[str, Any]

_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def io_metrics(metrics: Iterable[TaskIOMetrics], *, is_complete: bool = True) -> Json:
    """Sum the metrics of attempts. Bytes are not counted, because rows are in Spark."""
    rows_in = rows_out = back_pressured = idle = busy = 0
    for each in metrics:
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
    return {
        "metrics": _summaries([each["metrics"] for each in subtasks]),
        "status-duration": _summaries([each["status-duration"] for each in subtasks]),
    }


def _summaries(several: Sequence[Json]) -> Json:
    fields = [key for key in several[0] if not isinstance(several[0][key], bool)] if several else []
    return {key: summary_of([int(each[key]) for each in several]) for key in fields}


def summary_of(values: Sequence[int]) -> Json:
    """Compute minimum, maximum, average, sum and percentiles. They are 0 if there are no values."""
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


def summary_over(values: Sequence[int]) -> Json:
    """Compute minimum, maximum, average and percentiles of values (Flink's StatsSummaryDto)."""
    ordered = sorted(values)
    extremes: Json = {
        "min": ordered[0] if ordered else 0,
        "max": ordered[-1] if ordered else 0,
        "avg": sum(ordered) // len(ordered) if ordered else 0,
    }
    # Without values the percentile is NaN, which JSON cannot represent as a number.
    percentiles = {name: float(percentile(ordered, at)) if ordered else "NaN" for name, at in _PERCENTILES.items()}
    return extremes | percentiles


def percentile(ordered: Sequence[int], percent: float) -> int:
    """Return a percentile of ordered values, by nearest rank."""
    return ordered[max(0, -int(-percent * len(ordered) // 100) - 1)]


def by_state(counts: Iterable[SubtaskCount]) -> dict[str, int]:
    return {each.state.value: each.count for each in counts if each.count}


NEVER = -1

_LASTING = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.RUNNING,
)


def entered(attempt: AttemptDetails, state: ExecutionState) -> int:
    return next((stamp.at_ms for stamp in attempt.timestamps if stamp.state is state), NEVER)


def terminal_ms(attempt: AttemptDetails) -> int:
    return max((entered(attempt, state) for state in EXECUTION_TERMINAL), default=NEVER)


def lifetime(attempts: Sequence[AttemptDetails], now_ms: int) -> Json:
    """Format the time from the first deployment of several attempts to the last end, or to now if any has not ended."""
    ends = [terminal_ms(attempt) for attempt in attempts]
    ended = NEVER if NEVER in ends else max(ends, default=NEVER)
    starts = [at for attempt in attempts if (at := entered(attempt, ExecutionState.DEPLOYING)) != NEVER]
    started = min(starts, default=NEVER)
    took = NEVER if started == NEVER else (now_ms if ended == NEVER else ended) - started
    return {"start-time": started, "end-time": ended, "duration": took}


def status_duration(attempt: AttemptDetails, now_ms: int) -> Json:
    """Return the time spent in each state. Skipped states have 0."""
    stamps = sorted(attempt.timestamps, key=lambda stamp: stamp.at_ms)
    spent = {**dict.fromkeys((state.value for state in _LASTING), 0), "INITIALIZING": 0}
    for number, stamp in enumerate(stamps):
        until = stamps[number + 1].at_ms if number + 1 < len(stamps) else now_ms
        if stamp.state in _LASTING:
            spent[stamp.state.value] = max(0, until - stamp.at_ms)
    return spent


def timestamps(attempt: AttemptDetails) -> Json:
    return {state.value: max(0, entered(attempt, state)) for state in ExecutionState}
