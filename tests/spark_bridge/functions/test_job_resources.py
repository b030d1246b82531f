"""Tests the job's resources that every function context provides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka import ProcessFunction
from flykka.spark_bridge.errors import JobResourceError, KeyContextError
from flykka.spark_bridge.functions.contexts import FunctionContext
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.functions.job_resources import CachedFile, JobResources, WithJobResources
from flykka.spark_bridge.functions.metric_group import MetricGroup
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext, TaskInfo

CITIES = CachedFile(
    name="cities", unit="flykka-1-cities.csv", registered="register_cached_file('c', 'cities') (a.py:1)"
)
RESOURCES = JobResources(
    cached_files={"cities": CITIES},
    global_job_parameters={"limit": "7"},
    broadcast_variables={"rates": lambda: [{"rate": 2}]},
    find=lambda file: f"/here/{file.unit}",
)
SEEN = {"file": "/here/flykka-1-cities.csv", "limit": "7", "absent": None, "default": "0", "rates": [{"rate": 2}]}


def seen_by(ctx: WithJobResources) -> Row:
    return {
        "file": ctx.get_cached_file("cities"),
        "limit": ctx.global_job_parameters["limit"],
        "absent": ctx.get_job_parameter("absent"),
        "default": ctx.get_job_parameter("absent", "0"),
        "rates": ctx.get_broadcast_variable("rates"),
    }


class Asking(ProcessFunction):
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.opened = seen_by(runtime_context)

    def process_element(self, row: Row, ctx: FunctionContext) -> Iterator[Row]:
        self.kept = ctx
        yield self.opened
        yield seen_by(ctx)

    def process_watermark(self, watermark_ms: int, ctx: FunctionContext) -> Iterator[Row]:
        yield seen_by(ctx)


def test_a_function_reads_resources_when_opened_and_in_each_call() -> None:
    runner = ProcessFunctionRunner(Asking(), resources=RESOURCES)
    runner.open()

    of_row = runner.process([{}], None, watermark_ms=0, processing_time_ms=0)
    of_watermark = runner.process_watermark(watermark_ms=1, processing_time_ms=0)

    assert [*of_row.rows, *of_watermark.rows] == [SEEN] * 3


def test_a_context_has_no_resources_outside_its_call() -> None:
    function = Asking()
    runner = ProcessFunctionRunner(function, resources=RESOURCES)
    runner.open()
    runner.process([{}], None, watermark_ms=0, processing_time_ms=0)

    with pytest.raises(KeyContextError, match="outside of its call"):
        function.kept.get_cached_file("cities")


def test_job_parameters_are_immutable() -> None:
    context = FunctionRuntimeContext(TaskInfo(), None, MetricGroup(), RESOURCES)

    with pytest.raises(TypeError):
        context.global_job_parameters["limit"] = "8"  # type: ignore[index]


def test_an_unknown_resource_is_refused_with_the_existing_ones() -> None:
    context = FunctionRuntimeContext(TaskInfo(), None, MetricGroup(), RESOURCES)
    without = FunctionRuntimeContext(TaskInfo(), None, MetricGroup())

    with pytest.raises(JobResourceError, match=r"no cached file 'towns', only 'cities': .*register_cached_file"):
        context.get_cached_file("towns")
    with pytest.raises(
        JobResourceError, match="no broadcast variable 'prices', only 'rates': add one with with_broadcast_set"
    ):
        context.get_broadcast_variable("prices")
    with pytest.raises(JobResourceError, match="no cached file 'towns', and no others exist"):
        without.get_cached_file("towns")
