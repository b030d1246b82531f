"""Tests windows with triggers, and rows that are too late for them."""

from __future__ import annotations

import pytest

from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.spark_bridge.errors import StateDescriptorError, WindowError
from flykka.spark_bridge.functions.metric_group import MetricSample
from flykka.spark_bridge.functions.state_descriptors import (
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows, GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import (
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
from flykka.spark_bridge.functions.windowing.window_operator import LATE_RECORDS_DROPPED
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window
from tests.spark_bridge.functions.state_table import Row
from tests.spark_bridge.functions.windowing.operators import (
    SUM,
    emitted_values,
    window_row,
    windowed_table,
)


def test_a_count_trigger_fires_every_n_rows_of_a_window() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10), combination=SUM, trigger=CountTrigger.of(2))

    fired = emitted_values(table.process(*(window_row("a", time, n) for n, time in enumerate([1, 2, 11, 3, 4]))))

    assert fired == [("a", TimeWindow(0, 10), (1,)), ("a", TimeWindow(0, 10), (0 + 1 + 3 + 4,))]
    assert table.advance_watermark(100) == []
    assert table.entries == {}


def test_count_windows_are_consecutive_with_a_purging_trigger() -> None:
    table = windowed_table(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(3)))

    fired = emitted_values(table.process(*(window_row("a", None, n) for n in range(8))))

    assert [numbers for _, _, numbers in fired] == [(0, 1, 2), (3, 4, 5)]


def test_count_windows_slide_with_an_evictor() -> None:
    table = windowed_table(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3))

    fired = [each for n in range(8) for each in emitted_values(table.process(window_row("a", None, n)))]

    assert [numbers for _, _, numbers in fired] == [(0, 1), (1, 2, 3), (3, 4, 5), (5, 6, 7)]


def test_a_continuous_trigger_fires_at_every_interval_and_the_end() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(100), combination=SUM, trigger=ContinuousEventTimeTrigger.of(30))
    table.process(window_row("a", 5), window_row("a", 40))

    fired = {
        time: [total for _, _, (total,) in emitted_values(table.advance_watermark(time))]
        for time in (29, 30, 65, 98, 99)
    }

    assert fired == {29: [], 30: [2], 65: [2], 98: [2], 99: [2]}
    assert table.entries == {}


def test_a_continuous_trigger_works_in_processing_time_too() -> None:
    table = windowed_table(
        TumblingProcessingTimeWindows.of(100), combination=SUM, trigger=ContinuousProcessingTimeTrigger.of(30)
    )
    table.advance_processing_time(10)
    table.process(window_row("a", None))

    fired = {time: len(table.advance_processing_time(time)) for time in (29, 30, 61, 99)}

    assert fired == {29: 0, 30: 1, 61: 1, 99: 1}
    assert table.entries == {}


def test_merged_sessions_keep_the_earliest_interval_of_a_continuous_trigger() -> None:
    table = windowed_table(
        EventTimeSessionWindows.with_gap(50), combination=SUM, trigger=ContinuousEventTimeTrigger.of(30)
    )
    table.process(window_row("a", 5), window_row("a", 100), window_row("a", 52))

    assert emitted_values(table.advance_watermark(30)) == [("a", TimeWindow(5, 150), (3,))]


def test_a_delta_trigger_compares_with_the_last_fired_row() -> None:
    farther = DeltaTrigger.of(3, lambda last, now: now["n"] - last["n"], "n bigint")
    table = windowed_table(GlobalWindows.create(), trigger=PurgingTrigger.of(farther))

    fired = [each for n in (1, 3, 4, 5, 8, 9) for each in emitted_values(table.process(window_row("a", None, n)))]

    assert [numbers for _, _, numbers in fired] == [(1, 3, 4, 5), (8, 9)]


def test_a_delta_trigger_over_a_missing_column_is_refused() -> None:
    table = windowed_table(GlobalWindows.create(), trigger=DeltaTrigger.of(3, lambda last, now: 0, "km double"))

    with pytest.raises(WindowError, match="DeltaTrigger compares km, but the rows have key, n, time"):
        table.process(window_row("a", None))


def test_a_trigger_that_cannot_merge_is_refused_for_sessions() -> None:
    farther = DeltaTrigger.of(3, lambda last, now: 0, "n bigint")

    with pytest.raises(WindowError, match=r"DeltaTrigger cannot be used for EventTimeSessionWindows, which merge"):
        windowed_table(EventTimeSessionWindows.with_gap(5), trigger=farther)


class AtTen(Trigger):
    """Fires at time 10 in every window, and deletes a timer when row 9 arrives."""

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

    def clear(self, window: Window, ctx: TriggerContext) -> None: ...


def test_a_timer_belongs_to_one_window() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(20), trigger=AtTen())
    table.process(window_row("a", 1), window_row("a", 21), window_row("a", 41), window_row("a", 22, 9))

    assert [window.start for _, window, _ in emitted_values(table.advance_watermark(10))] == [0, 40]


def test_undeclared_state_of_a_trigger_is_refused() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(20), trigger=AtTen())

    with pytest.raises(StateDescriptorError, match=r"'asked' is not declared: add its descriptor to AtTen.states"):
        table.process(window_row("a", 1, 7))


# Event time


def test_late_rows_without_a_side_output_are_counted() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10))
    table.advance_watermark(9)

    table.process(window_row("a", 3), window_row("a", 9), window_row("a", 10))

    (counted,) = [each for each in table.runner.drain_metrics() if each.name == LATE_RECORDS_DROPPED]
    assert isinstance(counted, MetricSample)
    assert counted.count == 2


def test_rows_without_a_time_are_in_no_event_time_window() -> None:
    table = windowed_table(TumblingEventTimeWindows.of(10))

    assert table.process(window_row("a", None)) == []
    assert table.entries == {}


def test_the_global_window_fires_its_trigger_at_the_streams_end() -> None:
    table = windowed_table(
        GlobalWindows.create(), combination=SUM, trigger=ContinuousEventTimeTrigger.of(WATERMARK_MAX)
    )
    table.process(window_row("a", 0, 5))

    assert [total for _, _, total in emitted_values(table.advance_watermark(WATERMARK_MAX))] == [(5,)]
