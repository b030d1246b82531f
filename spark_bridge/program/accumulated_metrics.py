"""Metrics of rich functions, built on accumulators so that they work both in the driver and on the executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flykka.spark_bridge.functions.metric_group import (
    Counter,
    Gauge,
    Histogram,
    M,
    Meter,
    Metric,
    MetricGroup,
    MetricKind,
)
from flykka.spark_bridge.program.accumulators import Accumulator

Accumulators = Callable[[str, MetricKind], Accumulator[Any]]


class AccumulatedMetricGroup(MetricGroup):
    def __init__(self, accumulators: Accumulators, prefix: str = "", metrics: dict[str, Metric] | None = None) -> None:
        super().__init__(prefix, metrics)
        self._accumulators = accumulators

    def add_group(self, name: str) -> MetricGroup:
        return AccumulatedMetricGroup(self._accumulators, f"{self._prefix}{name}.", self._metrics)

    def read_gauges(self) -> None:
        """Sample all gauges. Only called in the driver."""
        for name, metric in self._metrics.items():
            if isinstance(metric, Gauge):
                self._accumulators(name, MetricKind.GAUGE).add_sample(metric.sample(name))

    def _new(self, name: str, kind: type[M], *arguments: Any) -> Metric:
        if kind is Counter:
            return _Counter(self._accumulators(name, MetricKind.COUNTER))
        if kind is Meter:
            return _Meter(self._accumulators(name, MetricKind.METER))
        if kind is Histogram:
            return _Histogram(self._accumulators(name, MetricKind.HISTOGRAM))
        return kind(*arguments)


# Copies are sent to Python workers, from which no value can be read later. So each event is reported at once.


class _Counter(Counter):
    __slots__ = ("_accumulator",)

    def __init__(self, accumulator: Accumulator[int]) -> None:
        super().__init__()
        self._accumulator = accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        return _Counter, (self._accumulator,)

    def inc(self, n: int = 1) -> None:
        super().inc(n)
        self._accumulator.add(n)

    def dec(self, n: int = 1) -> None:
        self.inc(-n)


class _Meter(Meter):
    __slots__ = ("_accumulator",)

    def __init__(self, accumulator: Accumulator[int]) -> None:
        super().__init__()
        self._accumulator = accumulator

    def mark_event(self, n: int = 1) -> None:
        self._accumulator.add(n)


class _Histogram(Histogram):
    __slots__ = ("_accumulator",)

    def __init__(self, accumulator: Accumulator[int]) -> None:
        super().__init__()
        self._accumulator = accumulator

    def _add(self, number: int) -> None:
        self._accumulator.add(number)
