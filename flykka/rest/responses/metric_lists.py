"""Metrics as Flink lists them: names, values as texts, or aggregates over several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

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
