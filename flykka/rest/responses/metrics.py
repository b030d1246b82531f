"""Metrics as Flink lists them: of the subtasks of a vertex, of its coordinator and of a TaskManager."""

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


_PARTS_NAMES = str.maketrans(" :,", "___")


def identifier(operator: str, metric: str) -> str:
    """The name of a metric in lists, `<operator>.<metric>`.

    What would part names is replaced, as by Flink's MetricQueryService; dots stay between the groups of a metric.
    """
    return f"{operator.replace('.', '_')}.{metric}".translate(_PARTS_NAMES)


def listed(there: Mapping[str, float], wanted: str | None) -> list[Json]:
    """The names, or with `wanted` the values, as texts. Unknown names are left out."""
    if wanted is None:
        return [{"id": name} for name in there]
    return [{"id": name, "value": _text(there[name])} for name in wanted.split(",") if name in there]


def aggregated(of_each: Sequence[Mapping[str, float]], wanted: str | None, functions: str | None) -> list[Json]:
    """The names, or with `wanted` aggregates over those that have such a value. Raises `RestError` as `chosen` does."""
    if wanted is None:
        return [{"id": name} for name in dict.fromkeys(name for each in of_each for name in each)]
    aggregates = chosen(functions)
    measured = {name: [each[name] for each in of_each if name in each] for name in wanted.split(",")}
    return [aggregate(name, values, aggregates) for name, values in measured.items() if values]


def chosen(functions: str | None) -> list[str]:
    """The aggregates that a request names, or all. Raises `RestError` where one is unknown."""
    found = list(_AGGREGATES) if functions is None else functions.split(",")
    if unknown := [name for name in found if name not in _AGGREGATES]:
        raise RestError(400, f"there is no aggregate {unknown[0]!r}; there are {', '.join(_AGGREGATES)}")
    return found


def aggregate(name: str, values: Sequence[float], functions: Sequence[str]) -> Json:
    return {"id": name, **{function: round(_AGGREGATES[function](values), 3) for function in functions}}


def _skew(values: Sequence[float]) -> float:
    """Unevenness, 0 to 100: the mean distance from the average, in relation to it."""
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


def values(subtasks: Sequence[SubtaskDetails], wanted: str | None) -> list[Json]:
    """`<subtask>.<metric>`: the names, or with `wanted` the values, as texts. Unknown names are left out."""
    if wanted is None:
        return [{"id": f"{subtask.subtask}.{name}"} for subtask in subtasks for name in _measured(subtask)]
    by_number = {str(subtask.subtask): subtask for subtask in subtasks}
    found: list[Json] = []
    for each in wanted.split(","):
        number, _, name = each.partition(".")
        if number in by_number:
            found += [{**value, "id": each} for value in values_of_subtask(by_number[number], name)]
    return found


def values_of_subtask(subtask: SubtaskDetails, wanted: str | None) -> list[Json]:
    """`<metric>`: the names, or with `wanted` the values, as texts. Unknown names are left out."""
    return listed(_measured(subtask), wanted)


def aggregates(
    subtasks: Sequence[SubtaskDetails], wanted: str | None, functions: str | None, numbers: str | None
) -> list[Json]:
    """Aggregates over the subtasks, or over those of `numbers`: `0,2-4`. Raises `RestError` for unknown functions."""
    if wanted is None:
        return [{"id": name} for name in dict.fromkeys(name for each in subtasks for name in _measured(each))]
    aggregates = chosen(functions)
    among = [each for each in subtasks if numbers is None or each.subtask in _numbers(numbers)]
    if not among:
        return []
    measured = {name: _of_each(among, name) for name in wanted.split(",")}
    return [aggregate(name, there, aggregates) for name, there in measured.items() if there]


def _of_each(subtasks: Iterable[SubtaskDetails], name: str) -> list[float]:
    if (read := _METRICS.get(name)) is not None:
        return [read(each) for each in subtasks]
    return [there[name] for each in subtasks if name in (there := _of_users(each))]


def _measured(subtask: SubtaskDetails) -> dict[str, float]:
    return {**{name: read(subtask) for name, read in _METRICS.items()}, **_of_users(subtask)}


def _of_users(subtask: SubtaskDetails) -> dict[str, float]:
    """Metrics of users, `<operator>.<metric>`; a histogram has one value for each of its figures."""
    found: dict[str, float] = {}
    for metric in user_metrics(subtask.accumulators):
        values = numbers(values_of_metric(metric))
        found |= {identifier(metric.operator_name, name): value for name, value in values.items()}
    return found


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(part) > 16:
            raise RestError(400, f"{text!r} does not name subtasks: as in 0,2-4")
        found.update(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return frozenset(found)


def task_manager_metrics(
    own: TaskManagerInfo, network: NetworkSettings, running: Sequence[SubtaskDetails]
) -> dict[str, float]:
    """Its slots, its tasks and its network buffers: of those the number where there is a limit.

    Memory, threads and collectors are those of the process, which it shares. Flink's names of network memory mean the
    same here: a segment is a network buffer, which is room for one batch, and in use while a batch waits in it. The
    bytes of batches are bounded, but not counted by TaskManager.
    """
    used = sum(each.current.metrics.input_queue_length + each.current.metrics.output_queue_length for each in running)
    found: dict[str, float] = {
        "taskSlotsTotal": own.slots,
        "taskSlotsAvailable": own.free,
        "numRunningTasks": len(running),
        f"{_NETWORK}.UsedMemorySegments": used,
    }
    if network.network_buffers is not None:
        found[f"{_NETWORK}.TotalMemorySegments"] = network.network_buffers
        found[f"{_NETWORK}.AvailableMemorySegments"] = max(0, network.network_buffers - used)
    if network.network_memory_bytes is not None:
        found[f"{_NETWORK}.TotalMemory"] = network.network_memory_bytes
    return found


def coordinator_metrics(vertex: JobVertexDetails, wanted: str | None) -> list[Json]:
    """The metrics of a vertex's operator coordinator: the names, or with `wanted` the values of those, as texts.

    A meter is told as its count: nobody notes when its events came.
    """
    there: dict[str, float] = {}
    for metric in vertex.coordinator_metrics:
        values = values_of_metric(metric)
        if metric.type is AccumulatorType.METER:
            del values[metric.metric_name]
        there |= {identifier(metric.operator_name, name): value for name, value in numbers(values).items()}
    return listed(there, wanted)
