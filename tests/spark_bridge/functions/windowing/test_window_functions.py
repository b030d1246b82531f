"""Tests window functions: their state, their context and their return values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flykka.spark_bridge.errors import FunctionOutputError, KeyContextError, StateDescriptorError
from flykka.spark_bridge.functions.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.functions.state_descriptors import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import (
    TumblingEventTimeWindows,
)
from flykka.spark_bridge.functions.windowing.triggers import (
    CountTrigger,
)
from flykka.spark_bridge.functions.windowing.window_function import (
    ProcessAllWindowFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from flykka.spark_bridge.functions.windowing.window_operator import Windowing, WindowOperator
from tests.spark_bridge.functions.state_table import Row, StateTable
from tests.spark_bridge.functions.windowing.operators import (
    ROW_TYPE,
    Contents,
    emitted_values,
    window_row,
    windowed_table,
)


class Firings(ProcessWindowFunction):
    """Counts the firings per window and per key; keeps its context for later calls, which is forbidden."""

    in_window = ReducingStateDescriptor("in_window", lambda one, two: one + two, "bigint")
    in_key = ValueStateDescriptor("in_key", "bigint", 0)
    window_states = (in_window,)
    global_states = (in_key,)

    def __init__(self) -> None:
        self.kept: ProcessWindowContext | None = None

    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        of_window = context.window_state().get_reducing_state(self.in_window)
        of_key = context.global_state().get_state(self.in_key)
        of_window.add(1)
        of_key.update(of_key.value() + 1)
        self.kept = context
        yield {"contents": (of_window.get(), of_key.value(), context.current_watermark())}

    def clear(self, context: ProcessWindowContext) -> None:
        context.window_state().get_state(self.in_window).clear()


def test_a_function_has_per_window_and_per_key_state() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10), Firings(), trigger=CountTrigger.of(1))

    fired = emitted_values(
        table.process(
            window_row("a", 1), window_row("a", 2), window_row("a", 11), window_row("b", 3), window_row("a", 4)
        )
    )

    assert [(of_window, of_key) for of_window, of_key, _ in fired] == [(1, 1), (2, 2), (1, 3), (1, 1), (3, 4)]


def test_a_function_clears_window_state_but_keeps_key_state() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10), Firings())
    table.process(window_row("a", 1))

    assert emitted_values(table.advance_watermark(9)) == [(1, 1, 9)]

    assert {name for name, value in table.entries["a"].values.items() if value is not None} == {"in_key"}


class FiringsOfAll(ProcessAllWindowFunction):
    firings = ValueStateDescriptor("firings", "bigint", 0)
    global_states = (firings,)

    def process(self, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        firings = context.global_state().get_state(self.firings)
        firings.update(firings.value() + 1)
        yield {"contents": (context.window().start, firings.value(), [each["n"] for each in elements])}


def test_a_function_of_all_rows_has_no_key_but_global_state() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10), FiringsOfAll())
    table.process(window_row("all", 1, n=1), window_row("all", 12, n=2), window_row("all", 3, n=3))

    assert emitted_values(table.advance_watermark(19)) == [(0, 1, [1, 3]), (10, 2, [2])]


class FiringsOfSubtask(Contents, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("firings", "bigint"))
        self._firings = sum(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([self._firings])

    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        self._firings += 1
        yield {"contents": self._firings}


def test_a_function_has_state_of_its_subtask() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10), FiringsOfSubtask())
    table.process(window_row("a", 1), window_row("b", 2))
    table.advance_watermark(9)
    table.runner.snapshot_state()
    windowing = Windowing(assigner=TumblingEventTimeWindows.of(10), function=FiringsOfSubtask(), row_type=ROW_TYPE)

    restored = StateTable(WindowOperator(windowing), operator_states=OperatorStates(table.runner.lists))
    restored.process(window_row("a", 1))

    assert emitted_values(restored.advance_watermark(9)) == [3]


@pytest.mark.parametrize(
    "use",
    [
        ProcessWindowContext.window,
        ProcessWindowContext.current_watermark,
        ProcessWindowContext.window_state,
        ProcessWindowContext.global_state,
    ],
)
def test_a_context_is_invalid_after_its_call(use: Callable[[ProcessWindowContext], object]) -> None:
    function = Firings()
    table = StateTable(
        WindowOperator(
            Windowing(assigner=GlobalWindows.create(), function=function, row_type=ROW_TYPE, trigger=CountTrigger.of(1))
        )
    )
    table.process(window_row("a", None))
    kept = function.kept
    table.process(window_row("a", None))

    assert kept is not None
    with pytest.raises(KeyContextError, match="used outside of its call"):
        use(kept)


class Undeclared(Contents):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        context.window_state().get_list_state(ListStateDescriptor("seen", "bigint"))
        yield {}


def test_undeclared_state_is_refused() -> None:
    table = windowed_table(GlobalWindows.create(), Undeclared(), trigger=CountTrigger.of(1))

    with pytest.raises(StateDescriptorError, match=r"'seen' is not declared: .* to Undeclared.window_states"):
        table.process(window_row("a", None))


class Forever(Contents):
    @property
    def window_states(self) -> tuple[StateDescriptor, ...]:  # type: ignore[override]
        expiring = ValueStateDescriptor("seen", "bigint")
        expiring.enable_time_to_live(StateTtlConfig.new_builder("1 day").build())
        return (expiring,)


def test_window_state_lives_as_long_as_the_window() -> None:
    with pytest.raises(StateDescriptorError, match="of a window cannot have a time-to-live"):
        windowed_table(GlobalWindows.create(), Forever(), trigger=CountTrigger.of(1))


class Row1(Contents):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Any:
        return {"n": 1}


def test_a_function_that_returns_a_single_row_is_refused_with_a_hint() -> None:
    table = windowed_table(GlobalWindows.create(), Row1(), trigger=CountTrigger.of(1))

    with pytest.raises(FunctionOutputError, match="yield it, or return a list of rows"):
        table.process(window_row("a", None))


class Changing(Contents):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        yield {"contents": tuple(each["n"] for each in elements)}
        for each in elements:
            each["n"] = -1


@pytest.mark.parametrize("evictor", [None, CountEvictor.of(5)])
def test_a_function_may_mutate_its_input_rows(evictor: CountEvictor | None) -> None:
    table = windowed_table(GlobalWindows.create(), Changing(), trigger=CountTrigger.of(1), evictor=evictor)

    assert emitted_values(table.process(window_row("a", None, 1), window_row("a", None, 2))) == [(1,), (1, 2)]
