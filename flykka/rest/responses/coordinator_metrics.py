"""Metrics of the operator coordinator of a vertex, `<operator>.<metric>`, as Flink names those of its operators."""

from __future__ import annotations

from flykka.messages.monitoring.job_details import JobVertexDetails
from flykka.messages.tasks.accumulator import AccumulatorType
from flykka.metrics.measured import numbers, values_of_metric
from flykka.rest.responses.io_metrics import Json

_NOT_IN_NAMES = str.maketrans(" .:,", "____")


def coordinator_metrics(vertex: JobVertexDetails, wanted: str | None) -> list[Json]:
    """The names, or with `wanted` the values, as texts. Unknown names are left out.

    A meter is told as its count: nobody notes when its events came.
    """
    there: dict[str, str] = {}
    for metric in vertex.coordinator_metrics:
        operator = metric.operator_name.translate(_NOT_IN_NAMES)
        values = values_of_metric(metric)
        if metric.type is AccumulatorType.METER:
            del values[metric.metric_name]
        there |= {f"{operator}.{name}": f"{value:g}" for name, value in numbers(values).items()}
    if wanted is None:
        return [{"id": name} for name in there]
    return [{"id": name, "value": there[name]} for name in wanted.split(",") if name in there]
