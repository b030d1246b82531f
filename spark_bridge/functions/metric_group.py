"""Metrics of a function, with Flink's names. Samples leave the worker with each batch.

Metrics use no clock: the receiver computes the rate of a meter's events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import index
from typing import Any, TypeVar

from flykka.spark_bridge.errors import FunctionError


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """A sample of a metric, for the time since its previous sample.

    `name` includes the names of its groups, separated by dots. `count` is the change of a counter, or the number of
    events of a meter; `counts` are the frequencies of a histogram's numbers; `value` is the value of a gauge.
    """

    name: str
    kind: MetricKind
    count: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)
    value: float = 0.0


class Counter:
    """Counts events."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Increase the count."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Decrease the count."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count since the batch began; for a rich function, the count in this copy."""
        return self._count

    def sample(self, name: str) -> MetricSample:
        count, self._count = self._count, 0
        return MetricSample(name=name, kind=MetricKind.COUNTER, count=count)


class Meter:
    """Counts events. The receiver of the metric computes a rate."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events = 0

    def mark_event(self, n: int = 1) -> None:
        """Count events."""
        self._events += n

    def sample(self, name: str) -> MetricSample:
        events, self._events = self._events, 0
        return MetricSample(name=name, kind=MetricKind.METER, count=events)


class Histogram:
    """A distribution of integers. Values of 1000 and above keep three significant digits, which limits its size."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def update(self, value: int) -> None:
        """Add a value. Raises `FunctionError` unless it is an integer."""
        try:
            number = index(value)
        except TypeError:
            raise FunctionError(
                f"a histogram is one of whole numbers, not of {value!r}: count milliseconds instead of seconds"
            ) from None
        if not -1_000 < number < 1_000:
            unit = 10 ** (len(str(abs(number))) - 3)
            number = number // unit * unit
        self._add(number)

    def sample(self, name: str) -> MetricSample:
        counts, self._counts = self._counts, {}
        return MetricSample(name=name, kind=MetricKind.HISTOGRAM, counts=counts)

    def _add(self, number: int) -> None:
        self._counts[number] = self._counts.get(number, 0) + 1


class Gauge:
    """A gauge. Its value is the result of a function that is called once for each batch."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], float]) -> None:
        self._function = function

    def sample(self, name: str) -> MetricSample:
        return MetricSample(name=name, kind=MetricKind.GAUGE, value=self._function())


Metric = Counter | Gauge | Meter | Histogram
M = TypeVar("M", Counter, Gauge, Meter, Histogram)
_KINDS: dict[type[Metric], MetricKind] = {
    Counter: MetricKind.COUNTER,
    Gauge: MetricKind.GAUGE,
    Meter: MetricKind.METER,
    Histogram: MetricKind.HISTOGRAM,
}


class MetricGroup:
    """Metrics by name. The same name returns the same metric.

    Raises `FunctionError` if a metric with the name exists and has another type.
    """

    def __init__(self, prefix: str = "", metrics: dict[str, Metric] | None = None) -> None:
        self._prefix = prefix
        self._metrics: dict[str, Metric] = {} if metrics is None else metrics

    def add_group(self, name: str) -> MetricGroup:
        """Return the subgroup with this name."""
        return MetricGroup(f"{self._prefix}{name}.", self._metrics)

    def counter(self, name: str) -> Counter:
        """Return the counter with this name."""
        return self._registered(name, Counter)

    def gauge(self, name: str, function: Callable[[], float]) -> Gauge:
        """Register a function whose result is the gauge's value, called in the driver if the operator runs there."""
        return self._registered(name, Gauge, function)

    def meter(self, name: str) -> Meter:
        """Return the meter with this name."""
        return self._registered(name, Meter)

    def histogram(self, name: str) -> Histogram:
        """Return the histogram with this name."""
        return self._registered(name, Histogram)

    def names(self) -> tuple[tuple[str, MetricKind], ...]:
        return tuple((name, _KINDS[type(metric)]) for name, metric in self._metrics.items())

    def samples(self) -> tuple[MetricSample, ...]:
        """Return a sample of each metric for the time since its previous sample. Used by runners."""
        return tuple(metric.sample(name) for name, metric in self._metrics.items())

    def _registered(self, name: str, kind: type[M], *arguments: Any) -> M:
        full = f"{self._prefix}{name}"
        there = self._metrics.get(full)
        if there is None:
            there = self._metrics[full] = self._new(full, kind, *arguments)
        if not isinstance(there, kind):
            raise FunctionError(
                f"the metric {full} is already a {type(there).__name__.lower()} and cannot also be a"
                f" {kind.__name__.lower()}: give one of them another name"
            )
        return there

    def _new(self, name: str, kind: type[M], *arguments: Any) -> Metric:
        return kind(*arguments)
