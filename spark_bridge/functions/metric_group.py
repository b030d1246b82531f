"""Metrics of a function, by Flink's names. What they have counted leaves the worker with each batch.

They know no clock: a rate is made of a meter's events where they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from flykka.spark_bridge.errors import FunctionError


class MetricKind(Enum):
    """Kind of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """Report of a metric on the time since its last report.

    `name` has the names of its groups before it, with points between. `count` is how far a counter has moved, how many
    events a meter has seen, or how many values a histogram; `values` are those of the histogram, or the gauge's one.
    """

    name: str
    kind: MetricKind
    count: int = 0
    values: tuple[float, ...] = ()


class Counter:
    """Counts."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Count up."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Count down."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count since the batch began."""
        return self._count

    def sample(self, name: str) -> MetricSample:
        """Return the count, and begin with the next."""
        count, self._count = self._count, 0
        return MetricSample(name=name, kind=MetricKind.COUNTER, count=count)


class Meter:
    """Counts events, of which a rate is made."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events = 0

    def mark_event(self, n: int = 1) -> None:
        """Count events."""
        self._events += n

    def sample(self, name: str) -> MetricSample:
        """Return the number of events, and begin with the next."""
        events, self._events = self._events, 0
        return MetricSample(name=name, kind=MetricKind.METER, count=events)


class Histogram:
    """Distribution of values."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[float] = []

    def update(self, value: float) -> None:
        """Add a value."""
        self._values.append(value)

    def sample(self, name: str) -> MetricSample:
        """Return the values, and begin with the next."""
        values, self._values = tuple(self._values), []
        return MetricSample(name=name, kind=MetricKind.HISTOGRAM, count=len(values), values=values)


class Gauge:
    """Value that a function returns when it is asked for, once for each batch."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], float]) -> None:
        self._function = function

    def sample(self, name: str) -> MetricSample:
        """Return the value."""
        return MetricSample(name=name, kind=MetricKind.GAUGE, values=(self._function(),))


Metric = Counter | Gauge | Meter | Histogram
M = TypeVar("M", Counter, Gauge, Meter, Histogram)
_KINDS: dict[type[Metric], MetricKind] = {
    Counter: MetricKind.COUNTER,
    Gauge: MetricKind.GAUGE,
    Meter: MetricKind.METER,
    Histogram: MetricKind.HISTOGRAM,
}


class MetricGroup:
    """Metrics by name. The same name gives the same metric again.

    Raises `FunctionError` where a name is that of a metric of another kind.
    """

    def __init__(self, prefix: str = "", metrics: dict[str, Metric] | None = None) -> None:
        self._prefix = prefix
        self._metrics: dict[str, Metric] = {} if metrics is None else metrics

    def add_group(self, name: str) -> MetricGroup:
        """Return the group of this name in this one."""
        return MetricGroup(f"{self._prefix}{name}.", self._metrics)

    def counter(self, name: str) -> Counter:
        """Return the counter of this name."""
        return self._registered(name, Counter())

    def gauge(self, name: str, function: Callable[[], float]) -> Gauge:
        """Show what a function returns."""
        return self._registered(name, Gauge(function))

    def meter(self, name: str) -> Meter:
        """Return the meter of this name."""
        return self._registered(name, Meter())

    def histogram(self, name: str) -> Histogram:
        """Return the histogram of this name."""
        return self._registered(name, Histogram())

    def names(self) -> tuple[tuple[str, MetricKind], ...]:
        """Return the names of all metrics, with their kinds; for runners."""
        return tuple((name, _KINDS[type(metric)]) for name, metric in self._metrics.items())

    def samples(self) -> tuple[MetricSample, ...]:
        """Return a report of each metric on the time since its last one; for runners."""
        return tuple(metric.sample(name) for name, metric in self._metrics.items())

    def _registered(self, name: str, metric: M) -> M:
        there = self._metrics.setdefault(f"{self._prefix}{name}", metric)
        if not isinstance(there, type(metric)):
            raise FunctionError(
                f"the metric {self._prefix}{name} is a {type(there).__name__.lower()} already, and cannot be a"
                f" {type(metric).__name__.lower()} too: give one of them another name"
            )
        return there
