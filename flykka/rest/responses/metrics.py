"""Metrics in Flink's list format: of the subtasks of a vertex, of its coordinator and of a TaskManager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.messages.monitoring.job_details import JobVertexDetails, SubtaskDetails
from flykka.messages.tasks.accumulator import AccumulatorType
from flykka.metrics.measured import (
    CHAIN_METRICS,
    SINK_METRICS,
    SOURCE_METRICS,
    TASK_METRICS,
    numbers,
    user_metrics,
    values_of_metric,
)
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json

_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": mean,
    "sum": sum,
    "skew": lambda values: _skew(values),
}


_SEPARATORS = str.maketrans(" :,", "___")


def identifier(operator: str, metric: str) -> str:
    """Return the name of a metric in lists, `<operator>.<metric>`.

    Separators within names are replaced, as in Flink's MetricQueryService. Dots remain between metric groups.
    """
    return f"{operator.replace('.', '_')}.{metric}".translate(_SEPARATORS)


def listed(there: Mapping[str, float], names: str | None) -> list[Json]:
    """List all metric names, or the values of `names` as strings. Unknown names are ignored."""
    if names is None:
        return [{"id": name} for name in there]
    return [{"id": name, "value": _text(there[name])} for name in names.split(",") if name in there]


def aggregated(of_each: Sequence[Mapping[str, float]], names: str | None, functions: str | None) -> list[Json]:
    """List all metric names, or the aggregated values of `names`. Raises the errors of `chosen`."""
    if names is None:
        return [{"id": name} for name in dict.fromkeys(name for each in of_each for name in each)]
    aggregates = chosen(functions)
    measured = {name: [each[name] for each in of_each if name in each] for name in names.split(",")}
    return [aggregate(name, values, aggregates) for name, values in measured.items() if values]


def chosen(functions: str | None) -> list[str]:
    """Return the requested aggregate functions, by default all. Raises `RestError` if one is unknown."""
    names = list(_AGGREGATES) if functions is None else functions.split(",")
    if unknown := [name for name in names if name not in _AGGREGATES]:
        raise RestError(400, f"there is no aggregate {unknown[0]!r}; there are {', '.join(_AGGREGATES)}")
    return names


def aggregate(name: str, values: Sequence[float], functions: Sequence[str]) -> Json:
    return {"id": name, **{function: round(_AGGREGATES[function](values), 3) for function in functions}}


def _skew(values: Sequence[float]) -> float:
    """Return the skew from 0 to 100: the mean deviation from the average, in percent of the average."""
    average = mean(values)
    return 0.0 if not average else min(100.0, 100 * mean(abs(value - average) for value in values) / average)


def _text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.3f}"


_METRICS: Mapping[str, Callable[[SubtaskDetails], float]] = {
    **TASK_METRICS,
    **CHAIN_METRICS,
    **SOURCE_METRICS,
    **SINK_METRICS,
}
_NETWORK = "Status.Shuffle.Netty"


def values(subtasks: Sequence[SubtaskDetails], names: str | None) -> list[Json]:
    """List all metric names as `<subtask>.<metric>`, or the values of `names` as strings. Unknown names are ignored."""
    if names is None:
        return [{"id": f"{subtask.subtask}.{name}"} for subtask in subtasks for name in _measured(subtask)]
    by_number = {str(subtask.subtask): subtask for subtask in subtasks}
    result: list[Json] = []
    for each in names.split(","):
        number, _, name = each.partition(".")
        if number in by_number:
            result += [{**value, "id": each} for value in values_of_subtask(by_number[number], name)]
    return result


def values_of_subtask(subtask: SubtaskDetails, names: str | None) -> list[Json]:
    return listed(_measured(subtask), names)


def aggregates(
    subtasks: Sequence[SubtaskDetails], names: str | None, functions: str | None, numbers: str | None
) -> list[Json]:
    """Aggregate over the subtasks, or only over `numbers` such as `0,2-4`. Raises `RestError` for unknown functions."""
    if names is None:
        return [{"id": name} for name in dict.fromkeys(name for each in subtasks for name in _measured(each))]
    aggregates = chosen(functions)
    among = [each for each in subtasks if numbers is None or each.subtask in _numbers(numbers)]
    if not among:
        return []
    measured = {name: _subtask_values(among, name) for name in names.split(",")}
    return [aggregate(name, there, aggregates) for name, there in measured.items() if there]


def _subtask_values(subtasks: Iterable[SubtaskDetails], name: str) -> list[float]:
    if (read := _METRICS.get(name)) is not None:
        return [read(each) for each in subtasks]
    return [there[name] for each in subtasks if name in (there := _user_metrics(each))]


def _measured(subtask: SubtaskDetails) -> dict[str, float]:
    return {**{name: read(subtask) for name, read in _METRICS.items()}, **_user_metrics(subtask)}


def _user_metrics(subtask: SubtaskDetails) -> dict[str, float]:
    """Return user metrics by `<operator>.<metric>`. A histogram has one value per statistic."""
    metrics: dict[str, float] = {}
    for metric in user_metrics(subtask.accumulators):
        values = numbers(values_of_metric(metric))
        metrics |= {identifier(metric.operator_name, name): value for name, value in values.items()}
    return metrics


def _numbers(text: str) -> frozenset[int]:
    subtasks: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(part) > 16:
            raise RestError(400, f"{text!r} does not name subtasks: as in 0,2-4")
        subtasks.update(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return frozenset(subtasks)


def task_manager_metrics(
    own: TaskManagerInfo, network: NetworkSettings, running: Sequence[SubtaskDetails]
) -> dict[str, float]:
    """Return a TaskManager's numbers of slots, tasks and network buffers, and the limit of buffers, if any.

    Memory, threads and collectors belong to the process, which TaskManagers share. Flink's names of network memory keep
    their meaning: a segment is a network buffer, which has room for one batch, and is in use while a batch is queued in
    it. The bytes of batches are limited, but not counted per TaskManager.
    """
    used = sum(each.current.metrics.input_queue_length + each.current.metrics.output_queue_length for each in running)
    metrics: dict[str, float] = {
        "taskSlotsTotal": own.slots,
        "taskSlotsAvailable": own.free,
        "numRunningTasks": len(running),
        f"{_NETWORK}.UsedMemorySegments": used,
    }
    if network.network_buffers is not None:
        metrics[f"{_NETWORK}.TotalMemorySegments"] = network.network_buffers
        metrics[f"{_NETWORK}.AvailableMemorySegments"] = max(0, network.network_buffers - used)
    if network.network_memory_bytes is not None:
        metrics[f"{_NETWORK}.TotalMemory"] = network.network_memory_bytes
    return metrics


def coordinator_metrics(vertex: JobVertexDetails, names: str | None) -> list[Json]:
    """List the metrics of a vertex's operator coordinator: all names, or the values of `names` as strings.

    A meter is reported as its count, because the times of its events are unknown.
    """
    there: dict[str, float] = {}
    for metric in vertex.coordinator_metrics:
        values = values_of_metric(metric)
        if metric.type is AccumulatorType.METER:
            del values[metric.metric_name]
        there |= {identifier(metric.operator_name, name): value for name, value in numbers(values).items()}
    return listed(there, names)
