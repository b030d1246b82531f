"""Tests that a Python worker reuses a function for the next batch if its state is that after the last batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from flykka.spark_bridge.functions.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flykka.spark_bridge.functions.contexts import FunctionContext
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.functions.metric_group import MetricKind, MetricSample
from flykka.spark_bridge.functions.operator_states import Lists
from flykka.spark_bridge.functions.process_function import ProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext, TaskInfo
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor
from flykka.spark_bridge.worker import function_spec
from flykka.spark_bridge.worker.function_spec import FunctionSpec, SubtaskState
from flykka.spark_bridge.worker.inputs import OneInput
from tests.spark_bridge.functions.state_table import Row

_events: list[str] = []


class Numbers(ProcessFunction, CheckpointedFunction):
    """Numbers rows; the number of rows so far is the state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("rows", "bigint"))
        self._rows = sum(self._state.get())
        _events.append(f"initialize at {self._rows}, restored: {context.is_restored()}")

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        _events.append("open")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([self._rows])

    def process_element(self, row: Row, ctx: FunctionContext) -> Iterator[Row]:
        self._rows += 1
        yield {"n": 1 // row["divisor"] * self._rows}

    def close(self) -> None:
        _events.append("close")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the function; no function is open at first."""
    monkeypatch.setattr(function_spec, "_opened", {})
    _events.clear()
    return _events


def spec(state: SubtaskState, attempt: str = "attempt-0") -> FunctionSpec:
    return FunctionSpec(
        pickled=cloudpickle.dumps(Numbers()),
        task=TaskInfo(),
        subtask="job/numbers/0",
        attempt=attempt,
        inputs=OneInput(columns=("divisor",), event_time=None),
        emitted=pa.schema([("n", pa.int64())]),
        side=(),
        sees_watermarks=False,
        metrics={},
        operator_state=state,
    )


def numbered(function: FunctionSpec, divisor: int = 1) -> tuple[int, Lists]:
    with function.running(ProcessFunctionRunner) as runner:
        emitted = runner.process([{"divisor": divisor}], None, watermark_ms=0, processing_time_ms=0)
    return emitted.rows[0]["n"], runner.lists


def test_a_worker_reuses_a_function_in_the_expected_state(events: list[str]) -> None:
    _, lists = numbered(spec(SubtaskState()))

    number, _ = numbered(spec(SubtaskState(lists=lists, is_restored=True)))

    assert number == 2
    assert events == ["initialize at 0, restored: False", "open"]


def test_a_function_starts_from_the_state_of_another_worker(events: list[str]) -> None:
    _, first = numbered(spec(SubtaskState()))
    numbered(spec(SubtaskState(lists=first, is_restored=True)))
    events.clear()

    number, _ = numbered(spec(SubtaskState(lists=first, is_restored=True)))

    assert number == 2, "a batch that is computed again sees the state before it"
    assert events == ["close", "initialize at 1, restored: True", "open"]


def test_changes_of_a_failed_batch_are_discarded(events: list[str]) -> None:
    _, lists = numbered(spec(SubtaskState()))
    state = SubtaskState(lists=lists, is_restored=True)
    with pytest.raises(ZeroDivisionError):
        numbered(spec(state), divisor=0)

    number, _ = numbered(spec(state))

    assert number == 2
    assert events[-3:] == ["close", "initialize at 1, restored: True", "open"]


def test_another_attempt_starts_from_its_own_state(events: list[str]) -> None:
    numbered(spec(SubtaskState()))

    number, _ = numbered(spec(SubtaskState(), attempt="attempt-1"))

    assert number == 1
    assert events[-3:] == ["close", "initialize at 0, restored: False", "open"]


def test_a_function_without_operator_state_keeps_its_copy(events: list[str]) -> None:
    plain = replace(spec(SubtaskState()), operator_state=None)
    numbered(plain)

    number, lists = numbered(plain)

    assert number == 2
    assert lists == ()
    assert events == ["initialize at 0, restored: False", "open"]


class Measured(ProcessFunction):
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        metrics = runtime_context.get_metrics_group()
        metrics.counter("counter")
        metrics.meter("meter")
        metrics.histogram("histogram")
        metrics.gauge("gauge", lambda: 0.5)

    def process_element(self, row: Row, ctx: FunctionContext) -> None:
        pass


class Samples:
    def __init__(self) -> None:
        self.added: list[MetricSample] = []

    def add_sample(self, sample: MetricSample) -> None:
        self.added.append(sample)


def test_each_metric_is_reported_once_after_a_batch(events: list[str]) -> None:
    counts = {name: Samples() for name in ("counter", "meter", "histogram", "gauge")}
    measured = replace(spec(SubtaskState()), pickled=cloudpickle.dumps(Measured()), metrics=counts, operator_state=None)

    with measured.running(ProcessFunctionRunner) as runner:
        runner.process([{"divisor": 1}], None, watermark_ms=0, processing_time_ms=0)

    assert {name: samples.added for name, samples in counts.items()} == {
        "counter": [MetricSample(name="counter", kind=MetricKind.COUNTER)],
        "meter": [MetricSample(name="meter", kind=MetricKind.METER)],
        "histogram": [MetricSample(name="histogram", kind=MetricKind.HISTOGRAM)],
        "gauge": [MetricSample(name="gauge", kind=MetricKind.GAUGE, value=0.5)],
    }
