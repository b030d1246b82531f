"""Metrics of the subtasks of a vertex, by Flink's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from flykka.messages.monitoring.job_details import SubtaskDetails
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json

METRICS: dict[str, Callable[[SubtaskDetails], float]] = {
    "numRecordsIn": lambda subtask: subtask.current.metrics.rows_in,
    "numRecordsOut": lambda subtask: subtask.current.metrics.rows_out,
    "numRecordsInPerSecond": lambda subtask: subtask.rows_in_per_second,
    "numRecordsOutPerSecond": lambda subtask: subtask.rows_out_per_second,
    "numLateRecordsDropped": lambda subtask: subtask.current.metrics.late_rows,
    "busyTimeMsPerSecond": lambda subtask: 0 if subtask.shares is None else 1_000 * subtask.shares.busy,
    "backPressuredTimeMsPerSecond": lambda subtask: (
        0 if subtask.shares is None else 1_000 * subtask.shares.back_pressured
    ),
    "idleTimeMsPerSecond": lambda subtask: 0 if subtask.shares is None else 1_000 * subtask.shares.idle,
    "accumulateBusyTimeMs": lambda subtask: subtask.current.metrics.busy_ms,
    "accumulateBackPressuredTimeMs": lambda subtask: subtask.current.metrics.back_pressured_ms,
    "accumulateIdleTimeMs": lambda subtask: subtask.current.metrics.idle_ms,
    "currentInputWatermark": lambda subtask: _watermark(subtask),
    "buffers.inputQueueLength": lambda subtask: subtask.current.metrics.input_queue_length,
    "buffers.outputQueueLength": lambda subtask: subtask.current.metrics.output_queue_length,
}

_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": mean,
    "sum": sum,
    "skew": lambda values: _skew(values),
}


def values(subtasks: Sequence[SubtaskDetails], wanted: str | None) -> list[Json]:
    """`<subtask>.<metric>`: the names, or with `wanted` the values, as texts. Unknown names are left out."""
    if wanted is None:
        return [{"id": f"{subtask.subtask}.{name}"} for subtask in subtasks for name in METRICS]
    by_number = {str(subtask.subtask): subtask for subtask in subtasks}
    found = []
    for each in wanted.split(","):
        number, _, name = each.partition(".")
        if number in by_number and name in METRICS:
            found.append({"id": each, "value": _text(METRICS[name](by_number[number]))})
    return found


def aggregates(
    subtasks: Sequence[SubtaskDetails], wanted: str | None, functions: str | None, numbers: str | None
) -> list[Json]:
    """Aggregates over the subtasks, or over those of `numbers`: `0,2-4`. Raises `RestError` for unknown functions."""
    if wanted is None:
        return [{"id": name} for name in METRICS]
    chosen = list(_AGGREGATES) if functions is None else functions.split(",")
    if unknown := [name for name in chosen if name not in _AGGREGATES]:
        raise RestError(400, f"there is no aggregate {unknown[0]!r}; there are {', '.join(_AGGREGATES)}")
    among = [each for each in subtasks if numbers is None or each.subtask in _numbers(numbers)]
    if not among:
        return []
    names = [name for name in wanted.split(",") if name in METRICS]
    return [_aggregated(name, [METRICS[name](each) for each in among], chosen) for name in names]


def _aggregated(name: str, measured: Sequence[float], chosen: Sequence[str]) -> Json:
    return {"id": name, **{function: round(_AGGREGATES[function](measured), 3) for function in chosen}}


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(part) > 16:
            raise RestError(400, f"{text!r} does not name subtasks: as in 0,2-4")
        found.update(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return frozenset(found)


def _skew(values: Sequence[float]) -> float:
    """Unevenness of the work of subtasks, 0 to 100: the mean distance from the average, in relation to it."""
    average = mean(values)
    return 0.0 if not average else min(100.0, 100 * mean(abs(value - average) for value in values) / average)


def _watermark(subtask: SubtaskDetails) -> int:
    at = subtask.current.metrics.watermark_ms
    return WATERMARK_MIN if at is None else at


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
