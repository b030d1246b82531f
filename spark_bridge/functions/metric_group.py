"""Metrics of a function, by Flink's names. What they have counted leaves the worker with each batch.

They know no clock: a rate is made of a meter's events where they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import index
from typing import Any, TypeVar

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

    `name` has the names of its groups before it, with points between. `count` is how far a counter has moved, or how
    many events a meter has seen; `counts` say how often each number came to a histogram; `value` is that of a gauge.
    """

    name: str
    kind: MetricKind
    count: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)
    value: float = 0.0


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
        """Return the count since the batch began; of a rich function, what this copy of it has counted."""
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
    """Distribution of whole numbers. Of those from 1000 on the first three digits count: it has to stay small."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def update(self, value: int) -> None:
        """Add a value. Raises `FunctionError` where it is no whole number."""
        try:
            number = index(value)
        except TypeError:
            raise FunctionError(
                f"a histogram is one of whole numbers, not of {value!r}: count milliseconds in place of seconds, say"
            ) from None
        if not -1_000 < number < 1_000:
            unit = 10 ** (len(str(abs(number))) - 3)
            number = number // unit * unit
        self._add(number)

    def sample(self, name: str) -> MetricSample:
        """Return how often each number was added, and begin with the next."""
        counts, self._counts = self._counts, {}
        return MetricSample(name=name, kind=MetricKind.HISTOGRAM, counts=counts)

    def _add(self, number: int) -> None:
        self._counts[number] = self._counts.get(number, 0) + 1


class Gauge:
    """Value that a function returns when it is asked for, once for each batch."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], float]) -> None:
        self._function = function

    def sample(self, name: str) -> MetricSample:
        """Return the value."""
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
        return self._registered(name, Counter)

    def gauge(self, name: str, function: Callable[[], float]) -> Gauge:
        """Show what a function returns: in the driver, where the operator runs there."""
        return self._registered(name, Gauge, function)

    def meter(self, name: str) -> Meter:
        """Return the meter of this name."""
        return self._registered(name, Meter)

    def histogram(self, name: str) -> Histogram:
        """Return the histogram of this name."""
        return self._registered(name, Histogram)

    def names(self) -> tuple[tuple[str, MetricKind], ...]:
        """Return the names of all metrics, with their kinds; for runners."""
        return tuple((name, _KINDS[type(metric)]) for name, metric in self._metrics.items())

    def samples(self) -> tuple[MetricSample, ...]:
        """Return a report of each metric on the time since its last one; for runners."""
        return tuple(metric.sample(name) for name, metric in self._metrics.items())

    def _registered(self, name: str, kind: type[M], *arguments: Any) -> M:
        full = f"{self._prefix}{name}"
        there = self._metrics.get(full)
        if there is None:
            there = self._metrics[full] = self._new(full, kind, *arguments)
        if not isinstance(there, kind):
            raise FunctionError(
                f"the metric {full} is a {type(there).__name__.lower()} already, and cannot be a"
                f" {kind.__name__.lower()} too: give one of them another name"
            )
        return there

    def _new(self, name: str, kind: type[M], *arguments: Any) -> Metric:
        return kind(*arguments)
