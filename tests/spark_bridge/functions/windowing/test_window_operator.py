"""The operator of windows, over state that is written and read between any two batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.errors import FunctionOutputError, KeyContextError, StateDescriptorError, WindowError
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction
from flykka.spark_bridge.functions.metric_group import MetricSample
from flykka.spark_bridge.functions.state_descriptors import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows, GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flykka.spark_bridge.functions.windowing.trigger import Trigger, TriggerContext, TriggerResult
from flykka.spark_bridge.functions.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    PurgingTrigger,
)
from flykka.spark_bridge.functions.windowing.window_assigner import MergingWindowAssigner, WindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import Aggregated, Combination, Reduced
from flykka.spark_bridge.functions.windowing.window_function import ProcessWindowContext, ProcessWindowFunction
from flykka.spark_bridge.functions.windowing.window_operator import LATE_RECORDS_DROPPED, Windowing, WindowOperator
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window
from tests.spark_bridge.functions.state_table import Row, StateTable

ROW_TYPE = "struct<key:string,n:bigint,time:bigint>"


@dataclass(frozen=True)
class Late:
    """The side output of late rows."""

    id: str = "late"


class Contents(ProcessWindowFunction):
    """Tells key, window and the numbers in it."""

    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        yield {"told": (key, context.window(), tuple(each["n"] for each in elements))}


class Sum(AggregateFunction[Row, dict[str, int], Row]):
    """Sums numbers."""

    def create_accumulator(self) -> dict[str, int]:
        return {"total": 0}

    def add(self, value: Row, accumulator: dict[str, int]) -> dict[str, int]:
        accumulator["total"] += value["n"]
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> Row:
        return {"n": accumulator["total"]}

    def merge(self, acc_a: dict[str, int], acc_b: dict[str, int]) -> dict[str, int]:
        return {"total": acc_a["total"] + acc_b["total"]}


def summed(one: Row, two: Row) -> Row:
    return {**two, "n": one["n"] + two["n"]}


SUM = Aggregated(Sum(), "struct<total:bigint>")


def opened(assigner: WindowAssigner, function: ProcessWindowFunction | None = None, **more: Any) -> StateTable:
    """The operator, pickled once as it is on the way to workers."""
    function = Contents() if function is None else function
    operator = WindowOperator(Windowing(assigner=assigner, function=function, row_type=ROW_TYPE, **more))
    return StateTable(cloudpickle.loads(cloudpickle.dumps(operator)))


def row(key: str, time: int | None, n: int = 1) -> Row:
    return {"key": key, "n": n, "time": time}


def told(rows: list[Row]) -> list[Any]:
    return [each["told"] for each in rows]


# Against a model


@dataclass
class Session:
    """A window of the model with its numbers."""

    window: TimeWindow
    total: int


@dataclass
class Model:
    """Windows of event time that fire at their end and with every late row, kept in plain lists."""

    assigner: WindowAssigner
    lateness: int
    watermark: int = WATERMARK_MIN
    late: list[Row] = field(default_factory=list)
    sessions: dict[str, list[Session]] = field(default_factory=lambda: defaultdict(list))

    def process(self, row: Row) -> list[Any]:
        fired = []
        skipped = True
        for window in self.assigner.assign_windows(row, row["time"], self):
            assert isinstance(window, TimeWindow)
            of_key = self.sessions[row["key"]]
            merged = Session(window, row["n"])
            joins = [each for each in of_key if self._joins(each.window, window)]
            for each in joins:
                merged = Session(merged.window.cover(each.window), merged.total + each.total)
            if merged.window.max_timestamp() + self.lateness <= self.watermark:
                continue
            skipped = False
            self.sessions[row["key"]] = [*(each for each in of_key if each not in joins), merged]
            if merged.window.max_timestamp() <= self.watermark:
                fired.append((row["key"], merged.window, (merged.total,)))
        if skipped and row["time"] + self.lateness <= self.watermark:
            self.late.append(row)
        return fired

    def advance(self, watermark: int) -> list[Any]:
        fired = [
            (key, each.window, (each.total,))
            for key, sessions in self.sessions.items()
            for each in sessions
            if self.watermark < each.window.max_timestamp() <= watermark
        ]
        self.watermark = watermark
        for key, sessions in self.sessions.items():
            self.sessions[key] = [each for each in sessions if each.window.max_timestamp() + self.lateness > watermark]
        return fired

    def get_current_processing_time(self) -> int:
        return 0

    def _joins(self, there: TimeWindow, window: TimeWindow) -> bool:
        if isinstance(self.assigner, MergingWindowAssigner):
            return there.intersects(window)
        return there == window


ASSIGNERS: list[WindowAssigner] = [
    TumblingEventTimeWindows.of(10, 3),
    SlidingEventTimeWindows.of(10, 4),
    SlidingEventTimeWindows.of(3, 7),
    EventTimeSessionWindows.with_gap(5),
    EventTimeSessionWindows.with_dynamic_gap(lambda row: row["n"]),
]
ROWS = st.lists(st.builds(row, st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 9)), max_size=6)
STEPS = st.lists(st.tuples(ROWS, st.integers(0, 25)), max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("combination", "evictor"),
    [(SUM, None), (Reduced(summed), None), (SUM, CountEvictor.of(1000))],
    ids=["aggregate", "reduce", "evictor"],
)
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=["tumbling", "sliding", "gaps", "sessions", "dynamic"])
@settings(max_examples=40)
@given(STEPS, st.sampled_from([0, 4, 20]))
def test_windows_fire_as_those_of_a_plain_model(
    assigner: WindowAssigner,
    evictor: CountEvictor | None,
    combination: Combination,
    steps: list[tuple[list[Row], int]],
    lateness: int,
) -> None:
    table = opened(
        assigner, combination=combination, evictor=evictor, allowed_lateness_ms=lateness, late_data_tag=Late()
    )
    model = Model(assigner, lateness)
    watermark = 0

    for rows, advance in [*steps, ([], 10_000)]:
        expected = [each for one in rows for each in model.process(one)]
        assert told(table.process(*rows) if rows else []) == expected
        watermark += advance
        assert sorted(told(table.advance_watermark(watermark))) == sorted(model.advance(watermark))

    assert table.side.get("late", []) == model.late
    assert table.entries == {}


# Triggers


def test_a_count_fires_with_every_so_many_rows_of_a_window() -> None:
    table = opened(TumblingEventTimeWindows.of(10), combination=SUM, trigger=CountTrigger.of(2))

    fired = told(table.process(*(row("a", time, n) for n, time in enumerate([1, 2, 11, 3, 4]))))

    assert fired == [("a", TimeWindow(0, 10), (1,)), ("a", TimeWindow(0, 10), (0 + 1 + 3 + 4,))]
    assert table.advance_watermark(100) == []
    assert table.entries == {}


def test_count_windows_follow_each_other_with_a_purging_trigger() -> None:
    table = opened(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(3)))

    fired = told(table.process(*(row("a", None, n) for n in range(8))))

    assert [numbers for _, _, numbers in fired] == [(0, 1, 2), (3, 4, 5)]


def test_count_windows_slide_with_an_evictor() -> None:
    table = opened(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3))

    fired = [each for n in range(8) for each in told(table.process(row("a", None, n)))]

    assert [numbers for _, _, numbers in fired] == [(0, 1), (1, 2, 3), (3, 4, 5), (5, 6, 7)]


def test_a_continuous_trigger_fires_at_every_interval_and_at_the_end() -> None:
    table = opened(TumblingEventTimeWindows.of(100), combination=SUM, trigger=ContinuousEventTimeTrigger.of(30))
    table.process(row("a", 5), row("a", 40))

    fired = {time: [total for _, _, (total,) in told(table.advance_watermark(time))] for time in (29, 30, 65, 98, 99)}

    assert fired == {29: [], 30: [2], 65: [2], 98: [2], 99: [2]}
    assert table.entries == {}


def test_a_continuous_trigger_goes_by_processing_time_too() -> None:
    table = opened(
        TumblingProcessingTimeWindows.of(100), combination=SUM, trigger=ContinuousProcessingTimeTrigger.of(30)
    )
    table.advance_processing_time(10)
    table.process(row("a", None))

    fired = {time: len(table.advance_processing_time(time)) for time in (29, 30, 61, 99)}

    assert fired == {29: 0, 30: 1, 61: 1, 99: 1}
    assert table.entries == {}


def test_sessions_that_merge_have_the_earliest_interval_of_a_continuous_trigger() -> None:
    table = opened(EventTimeSessionWindows.with_gap(50), combination=SUM, trigger=ContinuousEventTimeTrigger.of(30))
    table.process(row("a", 5), row("a", 100), row("a", 52))

    assert told(table.advance_watermark(30)) == [("a", TimeWindow(5, 150), (3,))]


def test_a_delta_compares_with_the_row_of_the_last_firing() -> None:
    farther = DeltaTrigger.of(3, lambda last, now: now["n"] - last["n"], "n bigint")
    table = opened(GlobalWindows.create(), trigger=PurgingTrigger.of(farther))

    fired = [each for n in (1, 3, 4, 5, 8, 9) for each in told(table.process(row("a", None, n)))]

    assert [numbers for _, _, numbers in fired] == [(1, 3, 4, 5), (8, 9)]


def test_a_delta_of_a_column_that_rows_do_not_have_is_refused() -> None:
    table = opened(GlobalWindows.create(), trigger=DeltaTrigger.of(3, lambda last, now: 0, "km double"))

    with pytest.raises(WindowError, match="DeltaTrigger compares km, and the rows have key, n, time"):
        table.process(row("a", None))


def test_a_trigger_that_cannot_merge_is_refused_for_sessions() -> None:
    farther = DeltaTrigger.of(3, lambda last, now: 0, "n bigint")

    with pytest.raises(WindowError, match=r"DeltaTrigger cannot be used for EventTimeSessionWindows, which merge"):
        opened(EventTimeSessionWindows.with_gap(5), trigger=farther)


class AtTen(Trigger):
    """Fires at time 10, in every window, and has one timer less when a row 9 comes."""

    asks = ValueStateDescriptor("asked", "bigint")

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        if element["n"] == 9:
            ctx.delete_event_time_timer(10)
        elif element["n"] == 7:
            ctx.get_partitioned_state(self.asks)
        else:
            ctx.register_event_time_timer(10)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == 10 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        raise AssertionError

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Nothing."""


def test_a_timer_is_that_of_one_window() -> None:
    table = opened(TumblingEventTimeWindows.of(20), trigger=AtTen())
    table.process(row("a", 1), row("a", 21), row("a", 41), row("a", 22, 9))

    assert [window.start for _, window, _ in told(table.advance_watermark(10))] == [0, 40]


def test_state_that_a_trigger_did_not_declare_is_refused() -> None:
    table = opened(TumblingEventTimeWindows.of(20), trigger=AtTen())

    with pytest.raises(StateDescriptorError, match=r"'asked' is not declared: add its descriptor to AtTen.states"):
        table.process(row("a", 1, 7))


# Time


def test_late_rows_without_a_side_output_are_counted() -> None:
    table = opened(TumblingEventTimeWindows.of(10))
    table.advance_watermark(9)

    table.process(row("a", 3), row("a", 9), row("a", 10))

    (counted,) = [each for each in table.runner.take_metrics() if each.name == LATE_RECORDS_DROPPED]
    assert isinstance(counted, MetricSample)
    assert counted.count == 2


def test_rows_without_a_time_are_in_no_window_of_event_time() -> None:
    table = opened(TumblingEventTimeWindows.of(10))

    assert table.process(row("a", None)) == []
    assert table.entries == {}


def test_the_global_window_fires_by_its_trigger_at_the_end_of_the_stream() -> None:
    table = opened(GlobalWindows.create(), combination=SUM, trigger=ContinuousEventTimeTrigger.of(WATERMARK_MAX))
    table.process(row("a", 0, 5))

    assert [total for _, _, total in told(table.advance_watermark(WATERMARK_MAX))] == [(5,)]


# Functions of windows


class Firings(ProcessWindowFunction):
    """Counts the firings of a window, and of a key; keeps its context, which it may not."""

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
        yield {"told": (of_window.get(), of_key.value(), context.current_watermark())}

    def clear(self, context: ProcessWindowContext) -> None:
        context.window_state().get_state(self.in_window).clear()


def test_a_function_has_state_of_the_window_and_of_the_key() -> None:
    table = opened(TumblingEventTimeWindows.of(10), Firings(), trigger=CountTrigger.of(1))

    fired = told(table.process(row("a", 1), row("a", 2), row("a", 11), row("b", 3), row("a", 4)))

    assert [(of_window, of_key) for of_window, of_key, _ in fired] == [(1, 1), (2, 2), (1, 3), (1, 1), (3, 4)]


def test_state_of_a_window_is_cleared_by_its_function_and_that_of_the_key_stays() -> None:
    table = opened(TumblingEventTimeWindows.of(10), Firings())
    table.process(row("a", 1))

    assert told(table.advance_watermark(9)) == [(1, 1, 9)]

    assert {name for name, value in table.entries["a"].values.items() if value is not None} == {"in_key"}


def test_a_context_that_is_kept_is_of_no_use() -> None:
    function = Firings()
    table = StateTable(
        WindowOperator(
            Windowing(assigner=GlobalWindows.create(), function=function, row_type=ROW_TYPE, trigger=CountTrigger.of(1))
        )
    )
    table.process(row("a", None))

    assert function.kept is not None
    with pytest.raises(KeyContextError, match="used outside of the call"):
        function.kept.current_watermark()


class Undeclared(Contents):
    """Asks for a state that it did not declare."""

    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        context.window_state().get_list_state(ListStateDescriptor("seen", "bigint"))
        yield {}


def test_state_that_a_function_did_not_declare_is_refused() -> None:
    table = opened(GlobalWindows.create(), Undeclared(), trigger=CountTrigger.of(1))

    with pytest.raises(StateDescriptorError, match=r"'seen' is not declared: .* to Undeclared.window_states"):
        table.process(row("a", None))


class Forever(Contents):
    """Has a state of windows that expires."""

    @property
    def window_states(self) -> tuple[StateDescriptor, ...]:  # type: ignore[override]
        expiring = ValueStateDescriptor("seen", "bigint")
        expiring.enable_time_to_live(StateTtlConfig.new_builder("1 day").build())
        return (expiring,)


def test_state_of_a_window_lives_as_long_as_the_window() -> None:
    with pytest.raises(StateDescriptorError, match="of a window can have no time-to-live"):
        opened(GlobalWindows.create(), Forever(), trigger=CountTrigger.of(1))


class Row1(Contents):
    """Returns a row, where rows are needed."""

    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Any:
        return {"n": 1}


def test_a_function_that_returns_a_row_is_told_to_return_rows() -> None:
    table = opened(GlobalWindows.create(), Row1(), trigger=CountTrigger.of(1))

    with pytest.raises(FunctionOutputError, match="yield it, or return a list of rows"):
        table.process(row("a", None))


class Changing(Contents):
    """Changes the rows that it is given."""

    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        yield {"told": tuple(each["n"] for each in elements)}
        for each in elements:
            each["n"] = -1


@pytest.mark.parametrize("evictor", [None, CountEvictor.of(5)])
def test_a_function_may_change_the_rows_that_it_is_given(evictor: CountEvictor | None) -> None:
    table = opened(GlobalWindows.create(), Changing(), trigger=CountTrigger.of(1), evictor=evictor)

    assert told(table.process(row("a", None, 1), row("a", None, 2))) == [(1,), (1, 2)]
