"""Tests that functions without keys run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.spark_bridge.functions.contexts import FunctionContext
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.functions.metric_group import MetricKind, MetricSample
from flykka.spark_bridge.functions.process_function import ProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from tests.spark_bridge.functions.state_table import Row
from tests.spark_bridge.functions.test_keyed_function_runner import ODD


class Halves(ProcessFunction):
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def process_element(self, row: Row, ctx: FunctionContext) -> Iterator[Row]:
        self.seen.inc()
        half, odd = divmod(row["value"], 2)
        if odd:
            ctx.output(ODD, row)
        else:
            yield {
                "half": half,
                "at": ctx.timestamp(),
                "watermark": ctx.current_watermark(),
                "now": ctx.timer_service().current_processing_time(),
            }


def open_runner(function: ProcessFunction) -> ProcessFunctionRunner:
    runner = ProcessFunctionRunner(function)
    runner.open()
    return runner


def test_a_function_is_called_for_each_row() -> None:
    runner = open_runner(Halves())

    emitted = runner.process(
        [{"value": value} for value in (2, 3, 4)], [10, 20, 30], watermark_ms=5, processing_time_ms=7
    )

    assert emitted.rows == [
        {"half": 1, "at": 10, "watermark": 5, "now": 7},
        {"half": 2, "at": 30, "watermark": 5, "now": 7},
    ]
    assert emitted.side == {"odd": [{"value": 3}]}


def test_rows_without_event_time_have_no_timestamp() -> None:
    runner = open_runner(Halves())

    emitted = runner.process([{"value": 2}], None, watermark_ms=5, processing_time_ms=7)

    assert [row["at"] for row in emitted.rows] == [None]


def test_an_empty_batch_yields_no_rows() -> None:
    assert open_runner(Halves()).process([], [], watermark_ms=5, processing_time_ms=7).rows == []


def test_metrics_are_reported_once() -> None:
    runner = open_runner(Halves())
    runner.process([{"value": 2}, {"value": 3}], None, watermark_ms=5, processing_time_ms=7)

    assert runner.drain_metrics() == (MetricSample(name="seen", kind=MetricKind.COUNTER, count=2),)
    assert runner.drain_metrics() == (MetricSample(name="seen", kind=MetricKind.COUNTER),)


def test_an_error_has_a_note_with_the_row() -> None:
    runner = open_runner(Halves())

    with pytest.raises(TypeError) as raised:
        runner.process([{"value": 2}, {"value": None}], None, watermark_ms=5, processing_time_ms=7)

    assert raised.value.__notes__ == ["flykka: in process_element, at row {'value': None}"]
