"""Tests that state with a time-to-live exists exactly until it expires."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.runtime.errors import DurationError
from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig, StateTtlConfigBuilder, UpdateType
from tests.spark_bridge.functions.scripted import done, scripted_row, scripted_table
from tests.spark_bridge.functions.state_table import StateTable
from tests.spark_bridge.functions.test_state import Average

D = TypeVar("D", bound=StateDescriptor)
TTL_MS = 10


def builder() -> StateTtlConfigBuilder:
    return StateTtlConfig.new_builder(TTL_MS)


def living(descriptor: D, ttl: StateTtlConfigBuilder | None = None) -> D:
    descriptor.enable_time_to_live((builder() if ttl is None else ttl).build())
    return descriptor


def count(ttl: StateTtlConfigBuilder | None = None, default: int | None = None) -> ValueStateDescriptor:
    return living(ValueStateDescriptor("count", "bigint", default), ttl)


def later(kept: StateTable, ms: int) -> None:
    kept.processing_time_ms += ms


def test_a_value_expires_exactly_after_its_time_to_live() -> None:
    kept = scripted_table(count(default=-1))
    done(kept, lambda s, _: s.count.update(1))

    later(kept, TTL_MS - 1)
    assert done(kept, lambda s, _: s.count.value()) == 1

    later(kept, 1)
    assert done(kept, lambda s, _: s.count.value()) == -1
    assert kept.entries == {}


def test_writing_renews_the_time_to_live_and_reading_does_not() -> None:
    kept = scripted_table(count())
    done(kept, lambda s, _: s.count.update(1))
    later(kept, 6)
    done(kept, lambda s, _: s.count.update(2))
    later(kept, 6)
    assert done(kept, lambda s, _: s.count.value()) == 2
    assert kept.written == []

    later(kept, 4)

    assert done(kept, lambda s, _: s.count.value()) is None


def test_reading_renews_the_time_to_live_if_configured() -> None:
    kept = scripted_table(count(builder().update_ttl_on_read_and_write()))
    done(kept, lambda s, _: s.count.update(1))

    for _ in range(3):
        later(kept, 6)
        assert done(kept, lambda s, _: s.count.value()) == 1
        assert kept.written == ["a"]

    later(kept, TTL_MS)
    assert done(kept, lambda s, _: s.count.value()) is None


def test_an_expired_value_may_be_returned_once_more() -> None:
    kept = scripted_table(count(builder().return_expired_if_not_cleaned_up()))
    done(kept, lambda s, _: s.count.update(1))
    later(kept, TTL_MS)

    assert done(kept, lambda s, _: s.count.value()) == 1
    assert done(kept, lambda s, _: s.count.value()) is None


def test_an_expired_value_is_not_returned_after_cleanup() -> None:
    kept = scripted_table(count(builder().return_expired_if_not_cleaned_up()))
    done(kept, lambda s, _: s.count.update(1))
    later(kept, TTL_MS)

    kept.clean_up()

    assert kept.entries == {}
    assert done(kept, lambda s, _: s.count.value()) is None


def test_clearing_a_value_clears_its_timestamp_too() -> None:
    kept = scripted_table(count(), ValueStateDescriptor("other", "bigint"))
    done(kept, lambda s, _: (s.count.update(1), s.other.update(1)))

    done(kept, lambda s, _: s.count.clear())

    assert kept.entries["a"].touched_ms == {"count": None}


def test_in_event_time_a_value_expires_by_the_watermark() -> None:
    kept = scripted_table(count(builder().use_event_time()))
    done(kept, lambda s, _: s.count.update(1), time=100)
    later(kept, 10**9)

    kept.watermark_ms = 100 + TTL_MS - 1
    assert done(kept, lambda s, _: s.count.value(), time=100) == 1

    kept.watermark_ms = 100 + TTL_MS
    assert done(kept, lambda s, _: s.count.value(), time=10**9) is None


def test_in_event_time_a_late_row_renews_a_value_at_the_watermark() -> None:
    kept = scripted_table(count(builder().use_event_time()))
    kept.watermark_ms = 1000

    done(kept, lambda s, _: s.count.update(1), time=5)

    assert kept.entries["a"].touched_ms == {"count": 1000}


def test_in_event_time_an_out_of_order_row_does_not_shorten_ttl() -> None:
    kept = scripted_table(count(builder().use_event_time()))

    kept.process(
        scripted_row("a", lambda s, _: s.count.update(1), 100), scripted_row("a", lambda s, _: s.count.update(2), 50)
    )

    assert kept.entries["a"].touched_ms == {"count": 100}


def test_a_processing_time_timer_renews_an_event_time_value_at_the_watermark() -> None:
    kept = scripted_table(count(builder().use_event_time()), on_timer=lambda s, _: s.count.update(1))
    done(kept, lambda s, ctx: ctx.timer_service().register_processing_time_timer(10**9))
    kept.watermark_ms = 70

    kept.advance_processing_time(10**9)

    assert kept.entries["a"].touched_ms == {"count": 70}


def test_each_list_element_expires_separately() -> None:
    kept = scripted_table(living(ListStateDescriptor("names", "string")))
    done(kept, lambda s, _: s.names.add("x"))
    later(kept, 6)
    done(kept, lambda s, _: s.names.add_all(["y", "z"]))
    later(kept, 4)

    assert done(kept, lambda s, _: s.names.get()) == ["y", "z"]
    assert kept.state("names") == {"a": ["y", "z"]}

    later(kept, 6)
    assert done(kept, lambda s, _: s.names.get()) == []
    assert kept.entries == {}


def test_each_map_entry_expires_separately() -> None:
    kept = scripted_table(living(MapStateDescriptor("prices", "string", "double")))
    done(kept, lambda s, _: s.prices.put_all({"tea": 1.0, "milk": 2.0}))
    later(kept, 6)
    done(kept, lambda s, _: s.prices.put("tea", 3.0))
    later(kept, 4)

    assert done(kept, lambda s, _: (s.prices.contains("milk"), s.prices.get("milk"), s.prices.get("tea"))) == (
        False,
        None,
        3.0,
    )
    assert kept.state("prices") == {"a": [("tea", 3.0)]}


@pytest.mark.parametrize("cleans", [True, False])
def test_the_order_of_a_map_does_not_depend_on_cleanup(cleans: bool) -> None:
    kept = scripted_table(living(MapStateDescriptor("prices", "string", "int")))
    done(kept, lambda s, _: s.prices.put("tea", 1))
    later(kept, 6)
    done(kept, lambda s, _: s.prices.put("milk", 2))
    later(kept, 4)
    if cleans:
        kept.clean_up()

    done(kept, lambda s, _: s.prices.put("tea", 3))

    assert done(kept, lambda s, _: s.prices.items()) == [("milk", 2), ("tea", 3)]


def test_a_map_of_expired_entries_is_empty() -> None:
    kept = scripted_table(living(MapStateDescriptor("prices", "string", "double")))
    done(kept, lambda s, _: s.prices.put("tea", 1.0))
    later(kept, TTL_MS)

    assert done(kept, lambda s, _: s.prices.is_empty()) is True
    assert kept.entries == {}


def test_expired_elements_and_entries_may_be_returned_once_more() -> None:
    ttl = builder().return_expired_if_not_cleaned_up()
    kept = scripted_table(
        living(ListStateDescriptor("names", "string"), ttl), living(MapStateDescriptor("prices", "string", "int"), ttl)
    )
    done(kept, lambda s, _: (s.names.add("x"), s.prices.put_all({"tea": 1, "milk": 2})))
    later(kept, TTL_MS)

    def read(s: Any, _: Any) -> Any:
        return s.names.get(), s.prices.get("tea"), s.prices.items()

    assert done(kept, read) == (["x"], 1, [("milk", 2)])
    assert done(kept, read) == ([], None, [])


def test_an_addition_to_an_expired_value_starts_from_empty_state() -> None:
    kept = scripted_table(
        living(ReducingStateDescriptor("sum", lambda a, b: a + b, "bigint")),
        living(AggregatingStateDescriptor("average", Average(), "struct<sum:bigint,count:bigint>")),
    )
    done(kept, lambda s, _: (s.sum.add(5), s.average.add(5)))
    later(kept, TTL_MS)

    done(kept, lambda s, _: (s.sum.add(1), s.average.add(1)))

    assert done(kept, lambda s, _: (s.sum.get(), s.average.get())) == (1, 1.0)


def test_values_written_without_a_time_to_live_expire_after_their_next_access() -> None:
    names, prices = ListStateDescriptor("names", "string"), MapStateDescriptor("prices", "string", "int")
    old = scripted_table(ValueStateDescriptor("count", "bigint"), names, prices)
    done(old, lambda s, _: (s.count.update(1), s.names.add("x"), s.prices.put("tea", 1)))
    kept = scripted_table(
        count(),
        living(ListStateDescriptor("names", "string")),
        living(MapStateDescriptor("prices", "string", "int")),
    )
    kept.entries = old.entries

    later(kept, 10**9)
    kept.clean_up()
    done(kept, lambda s, _: (s.count.value(), s.names.add("y"), s.prices.put("milk", 2)))
    later(kept, TTL_MS - 1)

    assert done(kept, lambda s, _: (s.count.value(), s.names.get(), s.prices.keys())) == (
        1,
        ["x", "y"],
        ["tea", "milk"],
    )
    later(kept, 1)
    assert done(kept, lambda s, _: (s.count.value(), s.names.get(), s.prices.keys())) == (1, [], [])


@dataclass
class Model:
    """A model of the state: the written values, each with the time of its last write."""

    touches_on_read: bool
    now: int = 0
    cells: dict[Any, tuple[Any, int]] = field(default_factory=dict)
    elements: list[tuple[int, int]] = field(default_factory=list)

    def read(self, cell: Any) -> Any:
        value, touched = self.cells.get(cell, (None, 0))
        if value is None or touched + TTL_MS <= self.now:
            self.cells.pop(cell, None)
            return None
        if self.touches_on_read:
            self.write(cell, value)
        return value

    def write(self, cell: Any, value: Any) -> None:
        """Write a cell; an expired cell is recreated as the last one."""
        if self.cells.get(cell, (None, self.now))[1] + TTL_MS <= self.now:
            del self.cells[cell]
        self.cells[cell] = (value, self.now)

    def read_list(self) -> list[int]:
        living = [(value, touched) for value, touched in self.elements if touched + TTL_MS > self.now]
        self.elements = [(value, self.now) for value, _ in living] if self.touches_on_read else living
        return [value for value, _ in living]


def apply(model: Model, step: tuple[str, int, int]) -> Any:
    what, key, value = step
    match what:
        case "update":
            model.write("count", value)
        case "value":
            return model.read("count")
        case "put":
            model.write(key, value)
        case "remove":
            model.cells.pop(key, None)
        case "get":
            return model.read(key)
        case "items":
            cells = [cell for cell in model.cells if isinstance(cell, int)]
            return [(cell, found) for cell in cells if (found := model.read(cell)) is not None]
        case "add":
            model.elements.append((value, model.now))
        case "list":
            return model.read_list()
        case "sum":
            before, touched = model.cells.get("sum", (0, -TTL_MS))
            model.write("sum", value + (before if touched + TTL_MS > model.now else 0))
        case "summed":
            return model.read("sum")
    return None


def perform(states: Any, step: tuple[str, int, int]) -> Any:
    what, key, value = step
    match what:
        case "update":
            states.count.update(value)
        case "value":
            return states.count.value()
        case "put":
            states.map.put(key, value)
        case "remove":
            states.map.remove(key)
        case "get":
            return states.map.get(key)
        case "items":
            return states.map.items()
        case "add":
            states.list.add(value)
        case "list":
            return states.list.get()
        case "sum":
            states.sum.add(value)
        case "summed":
            return states.sum.get()
    return None


STEPS = st.lists(
    st.tuples(
        st.tuples(
            st.sampled_from(["update", "value", "put", "remove", "get", "items", "add", "list", "sum", "summed"]),
            st.integers(0, 2),
            st.integers(0, 9),
        ),
        st.integers(0, TTL_MS + 2),
        st.booleans(),
    ),
    max_size=30,
)


@pytest.mark.slow
@given(STEPS, st.sampled_from(UpdateType))
def test_state_equals_a_simple_model_at_any_cleanup_frequency(
    steps: list[tuple[tuple[str, int, int], int, bool]], update_type: UpdateType
) -> None:
    ttl = builder().set_update_type(update_type)
    kept = scripted_table(
        count(ttl),
        living(MapStateDescriptor("map", "int", "bigint"), ttl),
        living(ListStateDescriptor("list", "bigint"), ttl),
        living(ReducingStateDescriptor("sum", lambda a, b: a + b, "bigint"), ttl),
    )
    model = Model(update_type is UpdateType.OnReadAndWrite)

    for step, wait, cleans in steps:
        later(kept, wait)
        model.now += wait
        if cleans:
            kept.clean_up()

        assert done(kept, lambda s, _, step=step: perform(s, step)) == apply(model, step)  # type: ignore[misc]

    later(kept, TTL_MS)
    kept.clean_up()
    assert kept.entries == {}


def test_a_time_to_live_must_be_positive() -> None:
    assert StateTtlConfig.new_builder("1 day").build().ttl_ms == 86_400_000

    with pytest.raises(DurationError, match="the time-to-live 0 must be longer than 0 ms"):
        StateTtlConfig.new_builder(0)


def test_an_unbuilt_time_to_live_config_is_refused() -> None:
    with pytest.raises(StateDescriptorError, match=r"the time-to-live of state 'count' must be .*; create it with"):
        ValueStateDescriptor("count", "bigint").enable_time_to_live(builder())  # type: ignore[arg-type]
