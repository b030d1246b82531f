"""Tests that a function sends only plain values, together with the batch in which they were sent."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import pytest
from pyspark import cloudpickle

from flykka.messages.tasks.operator_event import AggregateUpdate
from flykka.spark_bridge.errors import EventValueError, FunctionError, GlobalAggregateError, KeyContextError
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction
from flykka.spark_bridge.functions.contexts import FunctionContext
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.event_values import event_from_bytes, event_to_bytes
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.functions.operator_coordinator import (
    CoordinatedFunction,
    OperatorCoordinator,
    OperatorCoordinatorContext,
)
from flykka.spark_bridge.functions.process_function import ProcessFunction
from flykka.spark_bridge.operators.global_aggregates import JobAggregates


class Colour(enum.StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, None),
        ({"id": 1, "of": [True, 2.5, b"x"], 7: None}, {"id": 1, "of": [True, 2.5, b"x"], 7: None}),
        ((1, (2, 3)), [1, [2, 3]]),
        (Colour.RED, "red"),
        (Point(1, 2.5), [1, 2.5]),
    ],
)
def test_plain_values_round_trip(value: Any, back: Any) -> None:
    assert event_from_bytes(event_to_bytes(value, "an event")) == back


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**64, [lambda: None]])
def test_other_values_are_refused_with_the_allowed_types(value: Any) -> None:
    with pytest.raises(EventValueError, match="an event must be a plain value"):
        event_to_bytes(value, "an event")


class Sum(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return value + accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator


class Sending(ProcessFunction):
    def process_element(self, row: Row, ctx: FunctionContext) -> Any:
        self.context = ctx
        ctx.send_event_to_coordinator(row["id"])
        yield {"id": row["id"], "sum": ctx.update_global_aggregate("sum", row["id"], Sum())}


class Coordinated(Sending, CoordinatedFunction):
    """Has a coordinator, and does not handle events."""

    def get_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator:
        raise AssertionError("no test asks for it")


def process(runner: ProcessFunctionRunner, *ids: int) -> Any:
    return runner.process([{"id": each} for each in ids], None, watermark_ms=0, processing_time_ms=0)


def test_events_are_held_until_the_batch_has_ended() -> None:
    runner = ProcessFunctionRunner(Coordinated())
    runner.open()
    runner.gateway.begin_batch({"sum": event_to_bytes(40, "a result")})

    emitted = process(runner, 1, 2)
    sent = runner.gateway.drain()

    assert [row["sum"] for row in emitted.rows] == [40, 40]
    assert sent is not None
    assert [event_from_bytes(each) for each in sent.events] == [1, 2]
    assert [(name, event_from_bytes(value)) for name, value in sent.updates] == [("sum", 1), ("sum", 2)]
    assert list(sent.functions) == ["sum"]
    assert runner.gateway.drain() is None


def test_events_of_a_failed_batch_are_dropped() -> None:
    runner = ProcessFunctionRunner(Coordinated())
    runner.open()
    process(runner, 1)

    runner.gateway.begin_batch({})

    assert runner.gateway.drain() is None


def test_sending_events_without_a_coordinator_is_refused() -> None:
    runner = ProcessFunctionRunner(Sending())
    runner.open()

    with pytest.raises(FunctionError, match="make it a CoordinatedFunction too"):
        process(runner, 1)


def test_an_event_for_a_function_without_an_event_handler_fails() -> None:
    runner = ProcessFunctionRunner(Coordinated())
    runner.open()

    with pytest.raises(
        FunctionError, match="Coordinated has sent an event, but the function has no handle_operator_event"
    ):
        runner.handle_operator_events([event_to_bytes("x", "an event")], watermark_ms=0, processing_time_ms=0)


def test_a_context_sends_no_event_after_its_call() -> None:
    function = Coordinated()
    runner = ProcessFunctionRunner(function)
    runner.open()
    process(runner, 1)

    with pytest.raises(KeyContextError):
        function.context.send_event_to_coordinator(2)
    with pytest.raises(KeyContextError):
        function.context.update_global_aggregate("sum", 2, Sum())


@pytest.mark.parametrize(
    ("name", "function", "text"),
    [
        ("", Sum(), "name of a global aggregate must be a string, not ''"),
        ("sum", max, "needs an AggregateFunction, not <built-in"),
    ],
)
def test_an_aggregate_needs_a_name_and_a_function(name: Any, function: Any, text: str) -> None:
    runner = ProcessFunctionRunner(Coordinated())

    with pytest.raises(FunctionError, match=text):
        runner.gateway.update_aggregate(name, 1, function)


class Odd(Sum):
    def add(self, value: int, accumulator: int) -> int:
        if not value % 2:
            raise ValueError(f"{value} is even")
        return value + accumulator


def updates(name: str, *values: int) -> list[AggregateUpdate]:
    return [AggregateUpdate(name=name, value=event_to_bytes(value, "a value")) for value in values]


def test_all_subtasks_add_to_an_aggregate_whose_error_names_it() -> None:
    aggregates = JobAggregates()
    aggregates.bind({"odd": cloudpickle.dumps(Odd()), "sum": cloudpickle.dumps(Sum())}, "'rows' (app.py:3)")

    results = aggregates.update([*updates("odd", 1, 3), *updates("sum", 2), *updates("odd", 5)])
    assert [(each.name, event_from_bytes(each.result)) for each in results] == [("odd", 9), ("sum", 2)]
    text = r"the global aggregate 'odd' of operator 'rows' \(app.py:3\) cannot be updated: ValueError: 4 is even"
    with pytest.raises(GlobalAggregateError, match=text):
        aggregates.update(updates("odd", 4))
