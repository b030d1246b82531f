"""Tests that keyed functions run batch by batch over the state of the batch's keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext, TaskInfo
from flykka.spark_bridge.functions.state import ValueState
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from tests.spark_bridge.functions.scripted import Scripted, scripted_row, scripted_table
from tests.spark_bridge.functions.state_table import Row, StateTable


@dataclass(frozen=True)
class Tag:
    id: str


ODD = Tag("odd")


class Sums(KeyedProcessFunction):
    """Sums the values of a key, and emits the sum some time after the last value. Odd values go to the side output."""

    sum: ValueState[int]
    alarm: ValueState[int]

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", "bigint", 0))
        self.alarm = runtime_context.get_state(ValueStateDescriptor("alarm", "bigint"))

    def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
        self.sum.update((self.sum.value() or 0) + row["value"])
        timers = ctx.timer_service()
        if (before := self.alarm.value()) is not None:
            timers.delete_event_time_timer(before)
        self.alarm.update(row["time"] + 10)
        timers.register_event_time_timer(row["time"] + 10)
        if row["value"] % 2:
            ctx.output(ODD, {"value": row["value"]})
        else:
            yield {"key": ctx.get_current_key(), "sum": self.sum.value(), "at": ctx.timestamp()}

    def on_timer(self, timestamp: int, ctx: TimerContext) -> list[Row]:
        total = {"key": ctx.get_current_key(), "sum": self.sum.value(), "at": timestamp}
        self.sum.clear()
        self.alarm.clear()
        return [total]


def row(key: str, value: int, time: int) -> Row:
    return {"key": key, "value": value, "time": time}


def test_rows_are_emitted_in_the_order_of_their_input_rows() -> None:
    kept = StateTable(Sums())

    emitted = kept.process(row("a", 2, 1), row("b", 4, 2), row("a", 6, 3))

    assert emitted == [
        {"key": "a", "sum": 2, "at": 1},
        {"key": "b", "sum": 4, "at": 2},
        {"key": "a", "sum": 8, "at": 3},
    ]


def test_side_output_rows_are_emitted_by_tag_id() -> None:
    runner = KeyedFunctionRunner(Sums())
    runner.open()
    columns = StateColumns.empty(1, ["sum", "alarm"])

    emitted = runner.process(
        [0, 0, 0],
        ["a"],
        [row("a", value, 0) for value in (1, 2, 3)],
        None,
        columns,
        watermark_ms=WATERMARK_MIN,
        processing_time_ms=0,
    )

    assert [each["sum"] for each in emitted.rows] == [3]
    assert emitted.side == {"odd": [{"value": 1}, {"value": 3}]}


def test_emitted_rows_are_returned_only_once() -> None:
    kept = StateTable(Sums())

    assert len(kept.process(row("a", 2, 1))) == 1
    assert kept.process() == []


def test_a_key_whose_timer_cleared_all_state_is_deleted() -> None:
    kept = StateTable(Sums())
    kept.process(row("a", 2, 1), row("b", 2, 50))

    assert kept.advance_watermark(20) == [{"key": "a", "sum": 2, "at": 11}]
    assert list(kept.entries) == ["b"]


def test_only_changed_keys_are_written() -> None:
    kept = scripted_table(ValueStateDescriptor("count", "bigint"))
    kept.process(*(scripted_row(key, lambda s, _: s.count.update(1)) for key in "abc"))

    kept.process(
        scripted_row("a", lambda s, _: s.count.value()),
        scripted_row("b", lambda s, _: s.count.update(2)),
        scripted_row("c", lambda s, _: None),
    )

    assert kept.written == ["b"]


def test_a_function_may_modify_a_row_that_it_has_emitted() -> None:
    class Counting(KeyedProcessFunction):
        def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
            reused = {"number": 0}
            for reused["number"] in range(3):
                yield reused
                ctx.output(ODD, reused)

    kept = StateTable(Counting())

    assert kept.process(row("a", 1, 1)) == [{"number": 0}, {"number": 1}, {"number": 2}]


class Returning(KeyedProcessFunction):
    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def process_element(self, row: Row, ctx: KeyedContext) -> Any:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "rows"),
    [
        (None, []),
        ([], []),
        ([{"a": 1}], [{"a": 1}]),
        (({"a": 1}, {"a": 2}), [{"a": 1}, {"a": 2}]),
        ({1: {"a": 1}}.values(), [{"a": 1}]),
    ],
)
def test_a_function_may_return_rows_in_any_iterable_or_as_none(returned: Any, rows: list[Row]) -> None:
    assert StateTable(Returning(returned)).process(row("a", 1, 1)) == rows


def test_a_function_knows_its_subtask() -> None:
    contexts: list[FunctionRuntimeContext] = []

    class Telling(Returning):
        def open(self, runtime_context: FunctionRuntimeContext) -> None:
            contexts.append(runtime_context)

    task = TaskInfo(
        uid="sums",
        task_name="sums",
        index_of_this_subtask=2,
        number_of_parallel_subtasks=4,
        max_number_of_parallel_subtasks=128,
        attempt_number=1,
    )
    StateTable(Telling(None), task=task)

    (context,) = contexts
    assert (context.uid, context.task_name, context.task_name_with_subtasks) == ("sums", "sums", "sums (3/4)")
    assert (context.index_of_this_subtask, context.number_of_parallel_subtasks) == (2, 4)
    assert (context.max_number_of_parallel_subtasks, context.attempt_number) == (128, 1)


def test_the_states_of_an_open_function_are_listed() -> None:
    runner = KeyedFunctionRunner(Sums())
    runner.open()

    assert [(each.name, each.column_type) for each in runner.descriptors] == [("sum", "bigint"), ("alarm", "bigint")]


def test_a_function_is_called_with_watermarks() -> None:
    class OnWatermarks(Returning):
        def process_watermark(self, watermark_ms: int, ctx: FunctionContext) -> Iterator[Row]:
            ctx.output(ODD, {"time": ctx.timer_service().current_processing_time()})
            yield {"watermark": watermark_ms, "again": ctx.current_watermark(), "timestamp": ctx.timestamp()}

    runner = KeyedFunctionRunner(OnWatermarks(None))
    runner.open()

    emitted = runner.process_watermark(watermark_ms=7, processing_time_ms=9)

    assert emitted.rows == [{"watermark": 7, "again": 7, "timestamp": None}]
    assert emitted.side == {"odd": [{"time": 9}]}


def test_watermarks_and_timers_without_callback_methods_emit_no_rows() -> None:
    runner = KeyedFunctionRunner(Returning(None))
    runner.open()
    columns = StateColumns.empty(1, [])
    columns.event_timers[0] = [5]

    emitted = runner.process_watermark(watermark_ms=7, processing_time_ms=9)
    fired = runner.fire(TimeDomain.EVENT_TIME, ["a"], columns, watermark_ms=7, processing_time_ms=9)

    assert (emitted.rows, fired.rows) == ([], [])
    assert columns.is_empty(0)


def test_a_function_is_closed() -> None:
    closed = []

    class Closing(Returning):
        def close(self) -> None:
            closed.append(self)

    runner = KeyedFunctionRunner(Closing(None))
    runner.close()

    assert len(closed) == 1


def test_states_of_several_types_are_separate_columns() -> None:
    kept = StateTable(Scripted(ValueStateDescriptor("last", "bigint"), ListStateDescriptor("all", "bigint")))

    for value in (1, 2):
        kept.process(scripted_row("a", lambda s, _, value=value: (s.last.update(value), s.all.add(value))))  # type: ignore[misc]

    assert kept.entries["a"].values == {"last": 2, "all": [1, 2]}


def test_an_open_function_with_a_stored_context_can_be_pickled() -> None:
    function = Scripted(
        ValueStateDescriptor("count", "bigint", 5), ValueStateDescriptor("nested", "struct<a:map<string,array<date>>>")
    )
    kept = StateTable(function)
    kept.process(scripted_row("a", lambda s, ctx: setattr(s, "kept", ctx)))

    travelled = StateTable(cloudpickle.loads(cloudpickle.dumps(function)))

    assert travelled.process(scripted_row("a", lambda s, _: s.count.value())) == [{"key": "a", "value": 5}]


def test_rows_without_slots_raise_an_internal_error() -> None:
    runner = KeyedFunctionRunner(Returning(None))

    with pytest.raises(ValueError, match="zip"):
        runner.process([0], ["a"], [{}, {}], None, StateColumns.empty(1, []), watermark_ms=0, processing_time_ms=0)


EVENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 40)), max_size=30)


def run_sums(events: list[tuple[str, int, int]], ends: set[int]) -> tuple[list[Row], dict[str, Any]]:
    """Process events in batches that end at `ends`; all timers fire at the end."""
    kept = StateTable(Sums())
    batch: list[Row] = []
    emitted: list[Row] = []
    for number, event in enumerate(events):
        batch.append(row(*event))
        if number in ends:
            emitted += kept.process(*batch)
            batch = []
    emitted += kept.process(*batch)
    states = dict(sorted(kept.entries.items()))
    emitted += sorted(kept.advance_watermark(100), key=lambda each: str(each["key"]))
    assert kept.entries == {}
    return emitted, states


@pytest.mark.slow
@given(EVENTS, st.sets(st.integers(0, 29)))
def test_results_do_not_depend_on_batch_boundaries(events: list[tuple[str, int, int]], ends: set[int]) -> None:
    assert run_sums(events, ends) == run_sums(events, set())
