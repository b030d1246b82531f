"""Metrics as text for Prometheus, by the names that Flink's PrometheusReporter gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from flykka.metrics.measured import Measured

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "flink"


def text_of(measured: Iterable[Measured]) -> str:
    """The text. All are gauges, as Flink's reporter has even its counters."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(measured))
    return generate_latest(registry).decode()


class _Once(Collector):
    def __init__(self, measured: Iterable[Measured]) -> None:
        self._measured = measured

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for each in self._measured:
            name = f"{_PREFIX}_{each.scope}_{each.name}"
            family = families.get(name)
            if family is None:
                documentation = f"{each.name} (scope: {each.scope})"
                families[name] = family = GaugeMetricFamily(name, documentation, labels=list(each.labels))
            family.add_metric(list(each.labels.values()), each.value)
        yield from families.values()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from ()
