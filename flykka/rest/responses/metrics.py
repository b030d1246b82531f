"""Metrics of the subtasks of a vertex, of its coordinator and of a TaskManager, by Flink's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

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
from flykka.rest.responses.metric_lists import aggregate, chosen, identifier, listed

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
    there: dict[str, str] = {}
    for metric in vertex.coordinator_metrics:
        values = values_of_metric(metric)
        if metric.type is AccumulatorType.METER:
            del values[metric.metric_name]
        there |= {identifier(metric.operator_name, name): f"{value:g}" for name, value in numbers(values).items()}
    if wanted is None:
        return [{"id": name} for name in there]
    return [{"id": name, "value": there[name]} for name in wanted.split(",") if name in there]
