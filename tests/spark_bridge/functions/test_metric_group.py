"""Tests that metrics of functions report the changes since the last report."""

from __future__ import annotations

import pytest

from flykka.spark_bridge.errors import FunctionError
from flykka.spark_bridge.functions.metric_group import MetricGroup, MetricKind, MetricSample


def test_a_counter_reports_its_increments() -> None:
    group = MetricGroup()
    counter = group.counter("rows")

    counter.inc()
    counter.inc(5)
    counter.dec(2)

    assert counter.get_count() == 4
    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.COUNTER, count=4),)
    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.COUNTER, count=0),)


def test_a_meter_reports_its_events() -> None:
    group = MetricGroup()
    meter = group.meter("rows")

    meter.mark_event()
    meter.mark_event(2)

    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.METER, count=3),)
    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.METER, count=0),)


def test_a_gauge_reports_the_current_value_of_its_function() -> None:
    waiting: list[int] = []
    group = MetricGroup()
    group.gauge("waiting", lambda: len(waiting))

    waiting.append(1)

    assert group.samples() == (MetricSample(name="waiting", kind=MetricKind.GAUGE, value=1),)


def test_a_histogram_counts_each_number_with_three_significant_digits() -> None:
    group = MetricGroup()
    histogram = group.histogram("bytes")

    for number in (3, 3, 999, 123_456, 123_999, -123_456):
        histogram.update(number)

    counts = {3: 2, 999: 1, 123_000: 2, -124_000: 1}
    assert group.samples() == (MetricSample(name="bytes", kind=MetricKind.HISTOGRAM, counts=counts),)
    assert group.samples() == (MetricSample(name="bytes", kind=MetricKind.HISTOGRAM),)


def test_a_histogram_accepts_only_integers() -> None:
    with pytest.raises(FunctionError, match=r"whole numbers, not of 1\.5: count milliseconds instead of seconds"):
        MetricGroup().histogram("seconds").update(1.5)  # type: ignore[arg-type]


def test_group_names_precede_the_names_of_their_metrics() -> None:
    group = MetricGroup()

    group.add_group("orders").add_group("late").counter("rows").inc()

    assert [sample.name for sample in group.samples()] == ["orders.late.rows"]


def test_a_metric_is_registered_once_per_name() -> None:
    group = MetricGroup()

    assert group.add_group("orders").counter("rows") is group.add_group("orders").counter("rows")


def test_a_name_belongs_to_one_type_of_metric() -> None:
    group = MetricGroup()
    group.counter("rows")

    with pytest.raises(FunctionError, match="the metric rows is already a counter and cannot also be a meter"):
        group.meter("rows")
