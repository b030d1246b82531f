"""Tests that each forbidden action of a function raises one clear error on its line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flykka.spark_bridge.errors import FunctionOutputError, KeyContextError, StateDescriptorError, TimerError
from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction, ProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from tests.spark_bridge.functions.scripted import done, scripted_row, scripted_table
from tests.spark_bridge.functions.state_table import Row, StateTable
from tests.spark_bridge.functions.test_keyed_function_runner import ODD, Returning


class Yielding(KeyedProcessFunction):
    def __init__(self, *emitted: Any) -> None:
        self.emitted = emitted

    def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Any]:
        yield from self.emitted  # The line that the test expects.


def text_of(function: KeyedProcessFunction, error: type[Exception], **runner: Any) -> str:
    with pytest.raises(error) as raised:
        StateTable(function, **runner).process({"key": "a"})
    return str(raised.value)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (Yielding(7), "a function must emit rows, as dicts by the names of their columns, not 7"),
        (Yielding(None), "a function must emit rows, as dicts by the names of their columns, not None"),
        (
            Yielding((ODD, {"a": 1})),
            "a function must emit rows, as dicts by the names of their columns, not (Tag(id='odd'), {'a': 1});"
            " side outputs are written by ctx.output(tag, row)",
        ),
        (Returning({"a": 1}), "a function returned the row {'a': 1}: yield it, or return a list of rows"),
        (Returning(7), "a function must yield rows, or return a list of them or None, not 7"),
        (Returning("ab"), "a function must yield rows, or return a list of them or None, not 'ab'"),
        (Returning(["ab"]), "a function must emit rows, as dicts by the names of their columns, not 'ab'"),
    ],
)
def test_a_value_that_is_not_a_row_is_refused(function: KeyedProcessFunction, text: str) -> None:
    assert text_of(function, FunctionOutputError) == text


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"a": 1}, "missing: b"),
        ({"a": 1, "b": 2, "c": 3}, "not declared: c"),
        ({"a": 1, "B": 2}, "missing: b; not declared: B"),
        ({}, "missing: a, b"),
    ],
)
def test_a_row_with_other_columns_is_refused_with_their_names(row: Row, wrong: str) -> None:
    text = text_of(Yielding(row), FunctionOutputError, columns=["a", "b"])

    assert text == f"the row {row} does not have the columns of its output ({wrong})"


def test_a_row_may_have_its_columns_in_any_order() -> None:
    kept = StateTable(Yielding({"b": 2, "a": 1}), columns=["a", "b"])

    assert kept.process({"key": "a"}) == [{"a": 1, "b": 2}]


def side(tag: Any, row: Any) -> KeyedProcessFunction:
    class Aside(KeyedProcessFunction):
        def process_element(self, _: Row, ctx: KeyedContext) -> None:
            ctx.output(tag, row)

    return Aside()


@pytest.mark.parametrize(
    ("tag", "row", "text"),
    [
        ("odd", {"a": 1}, "ctx.output takes an OutputTag and a row, not 'odd' as the tag"),
        (ODD, 7, "a function must emit rows, as dicts by the names of their columns, not 7"),
        (ODD, {"b": 1}, "the row {'b': 1} does not have the columns of its output (missing: a; not declared: b)"),
    ],
)
def test_a_side_output_accepts_rows_of_its_columns(tag: Any, row: Any, text: str) -> None:
    assert text_of(side(tag, row), FunctionOutputError, side_columns={"odd": ["a"]}) == text


def test_rows_of_an_unread_side_output_are_dropped() -> None:
    runner = StateTable(side(ODD, {"a": 1}), side_columns={"late": ["a"]}).runner
    columns = StateColumns.empty(1, ())

    emitted = runner.process([0], ["a"], [{"key": "a"}], None, columns, watermark_ms=0, processing_time_ms=0)

    assert emitted.side == {}


def test_the_traceback_of_a_wrong_row_shows_the_line_that_yielded_it() -> None:
    with pytest.raises(FunctionOutputError) as raised:
        StateTable(Yielding({"a": 1}, 7)).process({"key": "a"})

    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.line == "yield from self.emitted  # The line that the test expects."


def test_a_function_cannot_suppress_the_error_of_a_wrong_row() -> None:
    class Swallowing(KeyedProcessFunction):
        def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Any]:
            for _ in range(3):
                try:
                    yield 7
                except FunctionOutputError:
                    continue

    assert "not 7" in text_of(Swallowing(), FunctionOutputError)


def notes(function: KeyedProcessFunction, use: Callable[[StateTable], object]) -> list[str]:
    with pytest.raises(ZeroDivisionError) as raised:
        use(StateTable(function))
    return raised.value.__notes__


class Dividing(KeyedProcessFunction):
    def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
        ctx.timer_service().register_event_time_timer(5)
        yield {"result": 1 // row["by"]}

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        yield {"result": timestamp // 0}


def test_an_error_in_a_function_has_a_note_with_row_and_key() -> None:
    notes_of_error = notes(Dividing(), lambda kept: kept.process({"key": "a", "by": 1}, {"key": "b", "by": 0}))

    assert notes_of_error == ["flykka: in process_element, at key 'b', row {'key': 'b', 'by': 0}"]


def test_an_error_at_a_timer_has_a_note_with_key_and_timer() -> None:
    def fire(kept: StateTable) -> None:
        kept.process({"key": "a", "by": 1})
        kept.advance_watermark(5)

    assert notes(Dividing(), fire) == ["flykka: in on_timer, at key 'a', event-time timer 5"]


def test_a_long_row_is_truncated_in_the_note() -> None:
    (notes_of_error,) = notes(Dividing(), lambda kept: kept.process({"key": "a" * 9_999, "by": 0, "text": "x" * 9_999}))

    assert len(notes_of_error) < 500


def test_rows_of_a_failed_call_are_not_emitted_by_the_next_call() -> None:
    kept = StateTable(Dividing())

    with pytest.raises(ZeroDivisionError):
        kept.process({"key": "a", "by": 1}, {"key": "b", "by": 0})

    assert kept.process({"key": "a", "by": 1}) == [{"result": 1}]


class Keeping(KeyedProcessFunction):
    kept: Any = None

    def process_element(self, row: Row, ctx: KeyedContext) -> None:
        self.kept = self.kept or ctx
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> list[Row]:
        return [{"at": self.kept.timestamp()}]


OUTSIDE = (
    "a context was used outside of its call: keep it neither in the function nor in a"
    " generator, and use the ctx of the current call"
)


@pytest.mark.parametrize(
    "use",
    [
        lambda ctx: ctx.timestamp(),
        lambda ctx: ctx.current_watermark(),
        lambda ctx: ctx.get_current_key(),
        lambda ctx: ctx.timer_service(),
        lambda ctx: ctx.output(ODD, {"a": 1}),
    ],
)
def test_a_context_cannot_be_used_after_its_call(use: Callable[[Any], object]) -> None:
    function = Keeping()
    StateTable(function).process({"key": "a"})

    with pytest.raises(KeyContextError) as raised:
        use(function.kept)

    assert str(raised.value) == OUTSIDE


def test_a_context_cannot_be_used_in_another_call() -> None:
    kept = StateTable(Keeping())
    kept.process({"key": "a"})

    with pytest.raises(KeyContextError) as raised:
        kept.advance_watermark(1)

    assert str(raised.value) == OUTSIDE


class Comparing(KeyedProcessFunction):
    """Uses the context of its first row for every later row."""

    kept: Any = None

    def process_element(self, row: Row, ctx: KeyedContext) -> list[Row]:
        self.kept = self.kept or ctx
        return [{"key": self.kept.get_current_key()}]


@pytest.mark.parametrize(("before", "after"), [([], ["a", "b"]), (["a"], ["b"]), (["a"], ["a"])])
def test_a_context_cannot_be_used_at_another_row(before: list[str], after: list[str]) -> None:
    kept = StateTable(Comparing())
    kept.process(*({"key": key} for key in before))

    with pytest.raises(KeyContextError) as raised:
        kept.process(*({"key": key} for key in after))

    assert str(raised.value) == OUTSIDE


def test_a_context_is_invalid_after_a_failed_call() -> None:
    class Raising(Keeping):
        def process_element(self, row: Row, ctx: KeyedContext) -> None:
            super().process_element(row, ctx)
            raise ZeroDivisionError

    function = Raising()
    with pytest.raises(ZeroDivisionError):
        StateTable(function).process({"key": "a"})

    with pytest.raises(KeyContextError):
        function.kept.timestamp()


def expiring(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder("1 s").build())
    return descriptor


NO_KEY = "state and timers belong to the current key, but there is none"


@pytest.mark.parametrize("living", [lambda each: each, expiring])
@pytest.mark.parametrize(
    ("descriptor", "use"),
    [
        (lambda: ValueStateDescriptor("s", "bigint"), lambda s: s.value()),
        (lambda: ValueStateDescriptor("s", "bigint"), lambda s: s.update(1)),
        (lambda: ListStateDescriptor("s", "bigint"), lambda s: s.get()),
        (lambda: ListStateDescriptor("s", "bigint"), lambda s: s.add(1)),
        (lambda: MapStateDescriptor("s", "bigint", "bigint"), lambda s: s.put(1, 1)),
        (lambda: MapStateDescriptor("s", "bigint", "bigint"), lambda s: s.items()),
        (lambda: ValueStateDescriptor("s", "bigint"), lambda s: s.clear()),
    ],
)
def test_state_cannot_be_used_without_a_current_key(
    descriptor: Callable[[], Any], use: Callable[[Any], object], living: Callable[[Any], Any]
) -> None:
    kept = scripted_table(living(descriptor()))
    states = kept.runner._function.states  # type: ignore[union-attr]

    with pytest.raises(KeyContextError, match=NO_KEY):
        use(states.s)
    done(kept, lambda _, __: None)
    with pytest.raises(KeyContextError, match=NO_KEY):
        use(states.s)


def test_timers_cannot_be_set_after_their_call() -> None:
    timers: list[Any] = []
    done(scripted_table(), lambda _, ctx: timers.append(ctx.timer_service()))

    with pytest.raises(KeyContextError, match=NO_KEY):
        timers[0].register_event_time_timer(1)


def test_a_state_cannot_be_registered_after_open() -> None:
    class Late(KeyedProcessFunction):
        def open(self, runtime_context: FunctionRuntimeContext) -> None:
            self.context = runtime_context
            runtime_context.get_state(ValueStateDescriptor("early", "bigint"))

        def process_element(self, row: Row, ctx: KeyedContext) -> list[Row]:
            self.context.get_state(ValueStateDescriptor("early", "bigint")).update(1)
            self.context.get_state(ValueStateDescriptor("late", "bigint"))
            return []

    text = text_of(Late(), StateDescriptorError)

    assert text == "state 'late' is registered too late: do it in open(runtime_context)"


class WithTimer(ProcessFunction):
    def process_element(self, row: Row, ctx: FunctionContext) -> None:
        ctx.timer_service().register_event_time_timer(5)

    def process_watermark(self, watermark_ms: int, ctx: FunctionContext) -> None:
        ctx.timer_service().delete_processing_time_timer(5)


def test_a_function_without_keys_has_no_timers() -> None:
    runner = ProcessFunctionRunner(WithTimer())
    runner.open()

    with pytest.raises(
        TimerError, match="a timer at 5 cannot be set here: timers belong to keys, so use them in a Keyed"
    ):
        runner.process([{"a": 1}], None, watermark_ms=0, processing_time_ms=0)


@pytest.mark.parametrize("kind", [KeyedFunctionRunner, ProcessFunctionRunner])
def test_timers_cannot_be_set_at_a_watermark(kind: Any) -> None:
    runner = kind(WithTimer())
    runner.open()

    with pytest.raises(TimerError, match="the timer at 5 cannot be deleted here: timers belong to keys"):
        runner.process_watermark(watermark_ms=0, processing_time_ms=0)


def test_a_watermark_callback_has_no_current_key() -> None:
    class Counting(KeyedProcessFunction):
        def open(self, runtime_context: FunctionRuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", "bigint"))

        def process_element(self, row: Row, ctx: KeyedContext) -> None:
            self.count.update(1)

        def process_watermark(self, watermark_ms: int, ctx: FunctionContext) -> None:
            self.count.update(1)

    kept = StateTable(Counting())
    kept.process(scripted_row("a", lambda _, __: None))

    with pytest.raises(KeyContextError, match=NO_KEY):
        kept.runner.process_watermark(watermark_ms=0, processing_time_ms=0)
