"""Metrics of the operator coordinator of a vertex, `<operator>.<metric>`, as Flink names those of its operators."""

from __future__ import annotations

from flykka.messages.monitoring.job_details import JobVertexDetails
from flykka.messages.tasks.accumulator import AccumulatorType
from flykka.metrics.measured import numbers, values_of_metric
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.metric_lists import identifier


def coordinator_metrics(vertex: JobVertexDetails, wanted: str | None) -> list[Json]:
    """The names, or with `wanted` the values, as texts. Unknown names are left out.

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
