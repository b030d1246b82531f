"""Tests functions of two inputs: one method for each input, shared state, and broadcast state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flykka.spark_bridge.errors import FunctionOutputError, KeyContextError, StateDescriptorError, TimerError
from flykka.spark_bridge.functions.broadcast_functions import (
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyContext,
    ReadOnlyContext,
    ReadOnlyTimerContext,
)
from flykka.spark_bridge.functions.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.current_key import NO_SLOT, TimeDomain
from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor
from tests.spark_bridge.functions.state_table import Row
from tests.spark_bridge.functions.test_keyed_function_runner import ODD

RULES = MapStateDescriptor("rules", "string", "bigint")
TIMES = {"watermark_ms": 5, "processing_time_ms": 7}


class Meetings(KeyedCoProcessFunction):
    """Emits the rows of both inputs of a key when the key's timer fires. Odd rows of the second input go to the side
    output.
    """

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", "string"))

    def process_element1(self, row: Row, ctx: KeyedContext) -> None:
        self.seen.add(f"{row['left']} at {ctx.timestamp()}")
        ctx.timer_service().register_event_time_timer(10)

    def process_element2(self, row: Row, ctx: KeyedContext) -> None:
        self.seen.add(f"{row['right']} at {ctx.timestamp()}")
        if row["right"] % 2:
            ctx.output(ODD, row)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        yield {"key": ctx.get_current_key(), "seen": self.seen.get()}


class Findings(KeyedBroadcastProcessFunction):
    """Returns the result of a row's action `do` on the context."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept", "bigint"))

    def process_element(self, row: Row, ctx: KeyedReadOnlyContext) -> list[Row]:
        return [{"key": ctx.get_current_key(), "value": row["do"](self, ctx)}]

    def process_broadcast_element(self, row: Row, ctx: KeyedBroadcastContext) -> list[Row]:
        return [{"key": None, "value": row["do"](self, ctx)}]

    def on_timer(self, timestamp: int, ctx: ReadOnlyTimerContext) -> list[Row]:
        return [{"key": ctx.get_current_key(), "value": ctx.get_broadcast_state(RULES).items()}]


def findings(states: OperatorStates | None = None) -> KeyedFunctionRunner:
    runner = KeyedFunctionRunner(Findings(), operator_states=states, broadcast_states=(RULES,))
    runner.open()
    return runner


def results_of(runner: KeyedFunctionRunner, *inputs: tuple[int, Any]) -> list[Any]:
    """Process rows of these inputs for the key 'a' one after the other, and return the results."""
    emitted = runner.process(
        [NO_SLOT if number else 0 for number, _ in inputs],
        ["a"],
        [{"do": do} for _, do in inputs],
        None,
        StateColumns.empty(1, ["kept"]),
        inputs=[number for number, _ in inputs],
        **TIMES,
    )
    return [row["value"] for row in emitted.rows]


def put_rule(name: str, value: int) -> tuple[int, Any]:
    return 1, lambda _, ctx: ctx.get_broadcast_state(RULES).put(name, value)


def broadcast_state_reader() -> tuple[int, Any]:
    return 0, lambda _, ctx: ctx.get_broadcast_state(RULES).items()


def test_both_inputs_share_keyed_state_and_rows_keep_their_event_times() -> None:
    runner, columns = KeyedFunctionRunner(Meetings()), StateColumns.empty(2, ["seen"])
    runner.open()

    emitted = runner.process(
        [0, 1, 0, 0],
        ["a", "b"],
        [{"left": 1}, {"right": 2}, {"right": 3}, {"left": 4}],
        [100, None, 300, 400],
        columns,
        inputs=[0, 1, 1, 0],
        watermark_ms=5,
        processing_time_ms=7,
    )
    fired = runner.fire(TimeDomain.EVENT_TIME, ["a", "b"], columns, watermark_ms=10, processing_time_ms=7)

    assert emitted == Emitted(side={"odd": [{"right": 3}]})
    assert fired.rows == [{"key": "a", "seen": ["1 at 100", "3 at 300", "4 at 400"]}]
    assert columns.values["seen"][1] == ["2 at None"]


def test_an_error_has_a_note_with_the_methods_name() -> None:
    runner = KeyedFunctionRunner(Meetings())
    runner.open()

    with pytest.raises(KeyError) as raised:
        runner.process(
            [0],
            ["a"],
            [{"left": 1}],
            None,
            StateColumns.empty(1, ["seen"]),
            inputs=[1],
            watermark_ms=5,
            processing_time_ms=7,
        )

    assert raised.value.__notes__ == ["flykka: in process_element2, at key 'a', row {'left': 1}"]


class CalledMethod(CoProcessFunction):
    def process_element1(self, row: Row, ctx: FunctionContext) -> list[Row]:
        return [{"first": row["n"], "at": ctx.timestamp()}]

    def process_element2(self, row: Row, ctx: FunctionContext) -> list[Row]:
        ctx.timer_service().register_event_time_timer(row["n"])
        return []


class Signs(CoMapFunction):
    def map1(self, row: Row) -> Row:
        return row

    def map2(self, row: Row) -> Row:
        return {"n": -row["n"]}


class Repeated(CoFlatMapFunction):
    def flat_map1(self, row: Row) -> Iterator[Row]:
        for _ in range(row["n"]):
            yield row

    def flat_map2(self, row: Row) -> None: ...


@pytest.mark.parametrize(
    ("function", "emitted"),
    [
        (CalledMethod(), [{"first": 1, "at": 10}, {"first": 2, "at": 30}]),
        (Signs(), [{"n": 1}, {"n": 2}]),
        (Repeated(), [{"n": 1}, {"n": 2}, {"n": 2}]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_functions_without_keys_are_called_for_each_input(function: Any, emitted: list[Row]) -> None:
    runner = ProcessFunctionRunner(function)
    runner.open()

    rows = runner.process([{"n": 1}, {"n": 2}], [10, 30], inputs=[0, 0], watermark_ms=5, processing_time_ms=7).rows

    assert rows == emitted


def test_the_second_input_has_its_own_method() -> None:
    runner = ProcessFunctionRunner(Signs())
    runner.open()

    rows = runner.process([{"n": 1}, {"n": 2}], None, inputs=[1, 0], watermark_ms=5, processing_time_ms=7).rows

    assert rows == [{"n": -1}, {"n": 2}]


def test_an_error_names_a_map_method_that_returns_no_row() -> None:
    class Wrong(Signs):
        def map2(self, row: Row) -> Row:
            return None  # type: ignore[return-value]

    runner = ProcessFunctionRunner(Wrong())
    runner.open()

    with pytest.raises(FunctionOutputError, match="not None") as raised:
        runner.process([{"n": 1}], None, inputs=[1], watermark_ms=5, processing_time_ms=7)
    assert raised.value.__notes__ == ["flykka: in map2, at row {'n': 1}"]


def test_timers_without_keys_are_refused() -> None:
    runner = ProcessFunctionRunner(CalledMethod())
    runner.open()

    with pytest.raises(TimerError, match="timers belong to keys"):
        runner.process([{"n": 1}], None, inputs=[1], watermark_ms=5, processing_time_ms=7)


def test_broadcast_state_is_visible_to_every_later_row_and_timer() -> None:
    runner, columns = findings(), StateColumns.empty(1, ["kept"])
    columns.event_timers[0] = [3]

    assert results_of(
        runner, broadcast_state_reader(), put_rule("a", 1), put_rule("b", 2), broadcast_state_reader()
    ) == [
        [],
        None,
        None,
        [("a", 1), ("b", 2)],
    ]
    fired = runner.fire(TimeDomain.EVENT_TIME, ["a"], columns, **TIMES)
    assert fired.rows == [{"key": "a", "value": [("a", 1), ("b", 2)]}]


def test_broadcast_state_is_operator_state_that_another_runner_can_restore() -> None:
    first = findings()
    results_of(first, put_rule("a", 1))
    first.snapshot_state()
    before = first.lists
    results_of(first, put_rule("b", 2))
    first.snapshot_state()

    assert results_of(findings(OperatorStates(before, is_restored=True)), broadcast_state_reader()) == [[("a", 1)]]
    assert results_of(findings(OperatorStates(first.lists, is_restored=True)), broadcast_state_reader()) == [
        [("a", 1), ("b", 2)]
    ]


@pytest.mark.parametrize(
    ("number", "do", "error", "said"),
    [
        (0, lambda _, ctx: ctx.get_broadcast_state(RULES).put("a", 1), KeyContextError, r"put\(\.\.\.\) would change"),
        (0, lambda _, ctx: ctx.get_broadcast_state(RULES).clear(), KeyContextError, "only process_broadcast_element"),
        (0, lambda _, ctx: ctx.get_broadcast_state(MapStateDescriptor("x", "int", "int")), StateDescriptorError, "'x'"),
        (
            1,
            lambda _, ctx: ctx.get_broadcast_state(MapStateDescriptor("rules", "int", "int")),
            StateDescriptorError,
            "use the descriptor that",
        ),
        (1, lambda function, _: function.kept.add(1), KeyContextError, "broadcast row belongs to no key"),
        (1, lambda function, _: function.kept.get(), KeyContextError, "broadcast row belongs to no key"),
        (1, lambda _, ctx: ctx.timer_service().register_event_time_timer(1), TimerError, "timers belong to keys"),
        (1, lambda _, ctx: ctx.apply_to_keyed_state(RULES, print), KeyContextError, "the state of every key"),
    ],
)
def test_operations_that_diverge_between_subtasks_or_need_a_key_are_refused(
    number: int, do: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        results_of(findings(), (number, do))

    assert raised.value.__notes__[0].startswith(
        "flykka: in process_broadcast_element, at row" if number else "flykka: in process_element, at key 'a', row"
    )


class Counted(BroadcastProcessFunction):
    def process_element(self, row: Row, ctx: ReadOnlyContext) -> list[Row]:
        return [{"n": row["n"], "rules": len(ctx.get_broadcast_state(RULES).keys())}]

    def process_broadcast_element(self, row: Row, ctx: BroadcastContext) -> None:
        ctx.get_broadcast_state(RULES).put(row["rule"], 0)


def test_a_function_without_keys_has_broadcast_state_too() -> None:
    runner = ProcessFunctionRunner(Counted(), broadcast_states=(RULES,))
    runner.open()

    rows: list[Row] = [{"n": 1}, {"rule": "a"}, {"n": 2}]
    emitted = runner.process(rows, None, inputs=[0, 1, 0], watermark_ms=5, processing_time_ms=7)

    assert emitted.rows == [{"n": 1, "rules": 0}, {"n": 2, "rules": 1}]
