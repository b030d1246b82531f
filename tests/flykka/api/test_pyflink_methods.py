"""Methods of PyFlink that no other test covers: each does what its name promises."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka import (
    ConsoleSink,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    StateTtlConfig,
    TimeWindow,
    Trigger,
)
from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.spark_bridge.functions.checkpointed_function import OperatorStateStore
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.functions.state_descriptors import ReducingStateDescriptor
from flykka.spark_bridge.functions.windowing.trigger import OnMergeContext, TriggerContext, TriggerResult
from flykka.spark_bridge.functions.windowing.windows import Window
from tests.flykka.programs import bids
from tests.spark_bridge.functions.state_table import Row
from tests.spark_bridge.functions.windowing.operators import emitted_values, window_row, windowed_table


@pytest.mark.spark
def test_row_methods_can_be_called_on_a_keyed_stream(spark: SparkSession) -> None:
    keyed = bids(spark).key_by("auction")

    assert keyed.map(lambda row: {"n": row["price"]}, "n long").columns == ["n"]
    assert keyed.flat_map(lambda row: [{"n": row["price"]}], "n long").columns == ["n"]
    assert keyed.filter(lambda row: row["price"] > 1).columns == keyed.columns


@pytest.mark.spark
def test_chaining_can_be_disabled_per_operator(spark: SparkSession) -> None:
    rows = bids(spark)
    head, alone = rows.select("price").start_new_chain(), rows.select("price").disable_chaining()
    sink = rows.sink_to(ConsoleSink()).disable_chaining()

    assert [each.flow.operator.chaining for each in (rows, head, alone, sink)] == [
        ChainingStrategy.ALWAYS,
        ChainingStrategy.HEAD,
        ChainingStrategy.NEVER,
        ChainingStrategy.NEVER,
    ]


@pytest.mark.spark
def test_a_sink_has_the_settings_of_an_operator(spark: SparkSession) -> None:
    operator = bids(spark).select("price").name("prices").uid("p").set_parallelism(2).slot_sharing_group("slow")
    sink = operator.sink_to(ConsoleSink()).name("shown").uid("s").set_parallelism(3).slot_sharing_group("fast")
    sink.set_uid_hash("0123456789abcdef0123456789abcdef")
    set_on = [operator.flow.operator, sink.flow.operator]

    assert [(each.name, each.uid, each.parallelism, each.slot_sharing_group) for each in set_on] == [
        ("prices", "p", 2, "slow"),
        ("shown", "s", 3, "fast"),
    ]
    assert [each.uid_hash for each in set_on] == [None, "0123456789abcdef0123456789abcdef"]


def test_assigners_provide_their_triggers_and_merge_their_windows() -> None:
    sessions = EventTimeSessionWindows.with_gap(5)

    assert isinstance(sessions.get_default_trigger(), EventTimeTrigger)
    merges = sessions.merge_windows([TimeWindow(0, 5), TimeWindow(3, 8), TimeWindow(20, 25)])
    assert merges == [(TimeWindow(0, 8), [TimeWindow(0, 5), TimeWindow(3, 8)])]


class AtThree(Trigger):
    """Fires when a window has three rows, even if the window was merged from several windows."""

    count = ReducingStateDescriptor("count", lambda one, other: one + other, "bigint")
    states = (count,)

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self.count)
        count.add(1)
        return TriggerResult.FIRE if count.get() == 3 else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.count)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self.count).clear()


def test_a_custom_trigger_follows_merged_sessions() -> None:
    table = windowed_table(EventTimeSessionWindows.with_gap(5), trigger=AtThree())

    assert emitted_values(table.process(window_row("a", 0, 1), window_row("a", 8, 2))) == []
    assert emitted_values(table.process(window_row("a", 4, 3))) == [("a", TimeWindow(0, 13), (1, 2, 3))]


def test_broadcast_state_is_read_as_a_map() -> None:
    written = OperatorStateStore(OperatorStates()).get_broadcast_state(MapStateDescriptor("rates", "string", "double"))
    read: ReadOnlyBroadcastState[str, float] = ReadOnlyBroadcastState(written)
    was_empty = read.is_empty()
    written.put_all({"EUR": 1.0, "USD": 0.9})

    assert (was_empty, read.is_empty()) == (True, False)
    assert (read.get("EUR"), read.contains("USD"), read.contains("GBP")) == (1.0, True, False)
    assert (sorted(read.keys()), sorted(read.values())) == (["EUR", "USD"], [0.9, 1.0])
    assert sorted(read.items()) == [("EUR", 1.0), ("USD", 0.9)]


@pytest.mark.parametrize("result", TriggerResult)
def test_a_trigger_result_states_its_actions(result: TriggerResult) -> None:
    assert (result.is_fire(), result.is_purge()) == ("FIRE" in result.name, "PURGE" in result.name)


def test_a_time_to_live_config_is_built_step_by_step() -> None:
    kinds: Any = StateTtlConfig
    default = StateTtlConfig.new_builder("1 day").build()
    on_read = StateTtlConfig.new_builder("1 day").update_ttl_on_read_and_write()
    built = on_read.return_expired_if_not_cleaned_up().use_processing_time().build()
    by_values = (
        StateTtlConfig.new_builder("1 day")
        .set_update_type(kinds.UpdateType.OnReadAndWrite)
        .set_state_visibility(kinds.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .set_ttl_time_characteristic(kinds.TtlTimeCharacteristic.ProcessingTime)
    )

    assert built == by_values.build() != default
    assert (built.ttl_ms, built.time_characteristic) == (86_400_000, kinds.TtlTimeCharacteristic.ProcessingTime)
    assert built.update_type is kinds.UpdateType.OnReadAndWrite
    assert built.state_visibility is kinds.StateVisibility.ReturnExpiredIfNotCleanedUp
    assert by_values.update_ttl_on_create_and_write().never_return_expired().build() == default
