"""A vertex with its subtasks: their attempts, TaskManagers, times, watermarks and back-pressure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from flykka.actors.machines.read_model.vertex_read_model import aggregate_state
from flykka.messages.monitoring.job_details import AttemptDetails, JobVertexDetails, SubtaskDetails, TimeShares
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.task import ExecutionState
from flykka.rest.responses.io_metrics import Json, aggregated, io_metrics, lifetime, status_duration, timestamps

_LOW, _HIGH = 0.1, 0.5
_UNKNOWN = "(unassigned)"


def vertex_details(
    vertex: JobVertexDetails, max_parallelism: int, subtasks: Sequence[SubtaskDetails], now: int
) -> Json:
    answers = [_subtask(subtask, now) for subtask in subtasks]
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": max_parallelism,
        "now": now,
        "subtasks": answers,
        "aggregated": aggregated(answers),
    }


def _subtask(subtask: SubtaskDetails, now: int) -> Json:
    return {"subtask": subtask.subtask, **attempt_details(subtask.current, now)}


def attempt_details(attempt: AttemptDetails, now: int) -> Json:
    lived = lifetime([attempt], now)
    return {
        "status": attempt.state.value,
        "attempt": attempt.attempt_number,
        "endpoint": attempt.task_manager or _UNKNOWN,
        **lived,
        "metrics": io_metrics([attempt.metrics]),
        "taskmanager-id": attempt.task_manager or _UNKNOWN,
        "status-duration": status_duration(attempt, now),
        "start_time": lived["start-time"],
    }


def subtask_times(vertex: JobVertexDetails, subtasks: Iterable[SubtaskDetails], now: int) -> Json:
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "now": now,
        "subtasks": [
            {
                "subtask": subtask.subtask,
                "endpoint": subtask.current.task_manager or _UNKNOWN,
                "duration": lifetime([subtask.current], now)["duration"],
                "timestamps": timestamps(subtask.current),
            }
            for subtask in subtasks
        ],
    }


def by_task_manager(vertex: JobVertexDetails, subtasks: Iterable[SubtaskDetails], now: int) -> Json:
    groups: dict[str, list[AttemptDetails]] = {}
    for subtask in subtasks:
        groups.setdefault(subtask.current.task_manager or _UNKNOWN, []).append(subtask.current)
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "now": now,
        "taskmanagers": [_on_one(name, attempts, now) for name, attempts in sorted(groups.items())],
    }


def _on_one(name: str, attempts: Sequence[AttemptDetails], now: int) -> Json:
    states = [attempt.state for attempt in attempts]
    answers = [attempt_details(attempt, now) for attempt in attempts]
    return {
        "endpoint": name,
        "taskmanager-id": name,
        "status": aggregate_state(Counter(states)).value,
        **lifetime(attempts, now),
        "metrics": io_metrics(attempt.metrics for attempt in attempts),
        "status-counts": {state.value: states.count(state) for state in ExecutionState},
        "aggregated": aggregated(answers),
    }


def watermarks(subtasks: Iterable[SubtaskDetails]) -> list[Json]:
    """Format the watermark of each subtask as a string, Long.MIN if it has none.

    Subtasks at the end of their input are omitted: their watermark is not a time, but the dashboard shows it as a time.
    """
    result = []
    for subtask in subtasks:
        at = subtask.current.metrics.watermark_ms
        if at == WATERMARK_MAX:
            continue
        value = WATERMARK_MIN if at is None else at
        result.append({"id": f"{subtask.subtask}.currentInputWatermark", "value": str(value)})
    return result


def back_pressure(subtasks: Sequence[SubtaskDetails], now: int) -> Json:
    """Format the fractions of the last seconds in which subtasks were back-pressured, busy and idle."""
    answers = [_pressure(subtask) for subtask in subtasks]
    level = _level(max((each["ratio"] for each in answers), default=0.0))
    return {
        "status": "ok",
        "backpressureLevel": level,
        "backpressure-level": level,
        "end-timestamp": now,
        "subtasks": answers,
    }


def _pressure(subtask: SubtaskDetails) -> Json:
    shares = subtask.shares or TimeShares(busy=0.0, back_pressured=0.0, idle=0.0)
    level = _level(shares.back_pressured)
    return {
        "subtask": subtask.subtask,
        "attempt-number": subtask.current.attempt_number,
        "backpressureLevel": level,
        "backpressure-level": level,
        "ratio": shares.back_pressured,
        "busyRatio": shares.busy,
        "idleRatio": shares.idle,
    }


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def accumulators(snapshots: Iterable[AccumulatorSnapshot]) -> list[Json]:
    return [{"name": each.name, "type": each.type.value, "value": _value(each)} for each in snapshots]


def _value(snapshot: AccumulatorSnapshot) -> str:
    match snapshot.type:
        case AccumulatorType.INT_COUNTER | AccumulatorType.LONG_COUNTER | AccumulatorType.METER:
            return str(snapshot.count)
        case AccumulatorType.HISTOGRAM:
            return ", ".join(f"{each.number}: {each.count}" for each in snapshot.counts)
        case _:
            return str(snapshot.total)
