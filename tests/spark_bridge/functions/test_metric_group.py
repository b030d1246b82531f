"""Tests that metrics of functions report the changes since the last report."""

from __future__ import annotations

import pytest

from flykka.spark_bridge.errors import FunctionError
from flykka.spark_bridge.functions.metric_group import MetricGroup, MetricKind, MetricSample


def test_a_counter_tells_how_far_it_has_moved() -> None:
    group = MetricGroup()
    counter = group.counter("rows")

    counter.inc()
    counter.inc(5)
    counter.dec(2)

    assert counter.get_count() == 4
    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.COUNTER, count=4),)
    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.COUNTER, count=0),)


def test_a_meter_tells_how_many_events_it_has_seen() -> None:
    group = MetricGroup()
    meter = group.meter("rows")

    meter.mark_event()
    meter.mark_event(2)

    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.METER, count=3),)
    assert group.samples() == (MetricSample(name="rows", kind=MetricKind.METER, count=0),)


def test_a_gauge_tells_what_its_function_returns_when_it_is_asked() -> None:
    waiting: list[int] = []
    group = MetricGroup()
    group.gauge("waiting", lambda: len(waiting))

    waiting.append(1)

    assert group.samples() == (MetricSample(name="waiting", kind=MetricKind.GAUGE, value=1),)


def test_a_histogram_tells_how_often_each_number_came_the_large_ones_to_three_digits() -> None:
    group = MetricGroup()
    histogram = group.histogram("bytes")

    for number in (3, 3, 999, 123_456, 123_999, -123_456):
        histogram.update(number)

    counts = {3: 2, 999: 1, 123_000: 2, -124_000: 1}
    assert group.samples() == (MetricSample(name="bytes", kind=MetricKind.HISTOGRAM, counts=counts),)
    assert group.samples() == (MetricSample(name="bytes", kind=MetricKind.HISTOGRAM),)


def test_a_histogram_is_one_of_whole_numbers() -> None:
    with pytest.raises(FunctionError, match=r"whole numbers, not of 1\.5: count milliseconds instead of seconds"):
        MetricGroup().histogram("seconds").update(1.5)  # type: ignore[arg-type]


def test_the_names_of_groups_stand_before_those_of_their_metrics() -> None:
    group = MetricGroup()

    group.add_group("orders").add_group("late").counter("rows").inc()

    assert [sample.name for sample in group.samples()] == ["orders.late.rows"]


def test_the_same_name_gives_the_same_metric() -> None:
    group = MetricGroup()

    assert group.add_group("orders").counter("rows") is group.add_group("orders").counter("rows")


def test_a_name_is_that_of_one_kind() -> None:
    group = MetricGroup()
    group.counter("rows")

    with pytest.raises(FunctionError, match="the metric rows is a counter already, and cannot be a meter too"):
        group.meter("rows")
