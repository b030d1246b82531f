"""Tests that keyed state is read as it was written, only for its key, and is absent after it is cleared."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.spark_bridge.errors import StateValueError
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction, ReduceFunction
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from tests.spark_bridge.functions.scripted import done, scripted_row, scripted_table, values_of_rows


class Average(AggregateFunction[int, dict[str, int], float]):
    def create_accumulator(self) -> dict[str, int]:
        return {"sum": 0, "count": 0}

    def add(self, value: int, accumulator: dict[str, int]) -> dict[str, int]:
        accumulator["sum"] += value
        accumulator["count"] += 1
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> float:
        return accumulator["sum"] / accumulator["count"]


class Greatest(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return max(value1, value2)


COUNT = ValueStateDescriptor("count", "bigint")
NAMES = ListStateDescriptor("names", "string")
PRICES = MapStateDescriptor("prices", "string", "double")
AVERAGE = AggregatingStateDescriptor("average", Average(), "struct<sum:bigint,count:bigint>")


def test_each_key_has_its_own_value() -> None:
    kept = scripted_table(COUNT)
    kept.process(scripted_row("a", lambda s, _: s.count.update(1)), scripted_row("b", lambda s, _: s.count.update(2)))

    read = kept.process(*(scripted_row(key, lambda s, _: s.count.value()) for key in "abc"))

    assert values_of_rows(read) == [1, 2, None]
    assert kept.written == []


def test_a_value_is_read_in_the_batch_that_writes_it() -> None:
    kept = scripted_table(COUNT)

    def count(s: Any, _: Any) -> int:
        s.count.update((s.count.value() or 0) + 1)
        return int(s.count.value())

    assert values_of_rows(
        kept.process(scripted_row("a", count), scripted_row("b", count), scripted_row("a", count))
    ) == [
        1,
        1,
        2,
    ]
    assert kept.state("count") == {"a": 2, "b": 1}


def test_the_default_of_a_missing_value_is_returned_but_not_stored() -> None:
    kept = scripted_table(ValueStateDescriptor("seen", "array<bigint>", default=[7]))

    read = kept.process(
        scripted_row("a", lambda s, _: s.seen.value().append(8)), scripted_row("a", lambda s, _: s.seen.value())
    )

    assert values_of_rows(read) == [None, [7]]
    assert kept.entries == {}


@pytest.mark.parametrize("clear", [lambda s, _: s.count.clear(), lambda s, _: s.count.update(None)])
def test_a_value_is_absent_after_a_clear_or_an_update_to_none(clear: Any) -> None:
    kept = scripted_table(COUNT)
    done(kept, lambda s, _: s.count.update(0))
    assert kept.state("count") == {"a": 0}

    done(kept, clear)

    assert done(kept, lambda s, _: s.count.value()) is None
    assert kept.entries == {}


def test_clearing_a_missing_value_writes_no_state() -> None:
    kept = scripted_table(COUNT, NAMES, PRICES, AVERAGE)

    for name in ("count", "names", "prices", "average"):
        done(kept, lambda s, _, name=name: getattr(s, name).clear())  # type: ignore[misc]

        assert kept.written == []


def test_a_value_mutated_by_its_reader_keeps_its_stored_content() -> None:
    kept = scripted_table(ValueStateDescriptor("order", "struct<items:array<string>>"))
    done(kept, lambda s, _: s.order.update({"items": ["x"]}))

    read = kept.process(
        scripted_row("a", lambda s, _: s.order.value()["items"].append("y")),
        scripted_row("a", lambda s, _: s.order.value()),
    )

    assert read[1]["value"] == {"items": ["x"]}


def test_a_list_keeps_insertion_order() -> None:
    kept = scripted_table(NAMES)
    done(kept, lambda s, _: s.names.add("x"))
    done(kept, lambda s, _: s.names.add_all(["y", "x"]))

    assert done(kept, lambda s, _: s.names.get()) == ["x", "y", "x"]
    assert kept.written == []


def test_a_list_may_be_replaced() -> None:
    kept = scripted_table(NAMES)
    done(kept, lambda s, _: s.names.add("x"))

    done(kept, lambda s, _: s.names.update(name for name in "yz"))

    assert done(kept, lambda s, _: s.names.get()) == ["y", "z"]


def test_an_empty_list_is_not_stored() -> None:
    kept = scripted_table(NAMES)
    done(kept, lambda s, _: s.names.add_all([]))
    assert kept.written == []

    done(kept, lambda s, _: s.names.add("x"))
    done(kept, lambda s, _: s.names.update([]))

    assert done(kept, lambda s, _: s.names.get()) == []
    assert kept.entries == {}


def test_adding_several_elements_to_a_list_succeeds_or_fails_completely() -> None:
    kept = scripted_table(NAMES)
    done(kept, lambda s, _: s.names.add("x"))

    def add(s: Any, _: Any) -> Any:
        with pytest.raises(StateValueError, match="state 'names' of type string cannot hold 1: a str is needed"):
            s.names.add_all(["y", 1])
        return s.names.get()

    assert done(kept, add) == ["x"]


def test_a_map_contains_entries_that_were_put_and_not_removed() -> None:
    kept = scripted_table(PRICES)
    done(kept, lambda s, _: s.prices.put("tea", 2))
    done(kept, lambda s, _: s.prices.put_all({"milk": 1.0, "salt": None, "tea": 3.0}))
    done(kept, lambda s, _: s.prices.remove("milk"))

    assert done(kept, lambda s, _: s.prices.items()) == [("tea", 3.0), ("salt", None)]
    assert done(kept, lambda s, _: [s.prices.keys(), list(s.prices), s.prices.values()]) == [
        ["tea", "salt"],
        ["tea", "salt"],
        [3.0, None],
    ]
    assert done(kept, lambda s, _: [s.prices.get(name) for name in ("tea", "salt", "milk")]) == [3.0, None, None]
    assert done(kept, lambda s, _: [s.prices.contains("salt"), "tea" in s.prices, "milk" in s.prices]) == [
        True,
        True,
        False,
    ]


def test_a_map_may_be_changed_during_iteration() -> None:
    kept = scripted_table(PRICES)
    done(kept, lambda s, _: s.prices.put_all({"tea": 2.0, "milk": 1.0}))

    done(kept, lambda s, _: [s.prices.remove(name) for name in s.prices])

    assert kept.entries == {}


def test_reading_a_map_without_removals_writes_no_state() -> None:
    kept = scripted_table(PRICES)
    done(kept, lambda s, _: s.prices.put("tea", 2.0))

    done(kept, lambda s, _: (s.prices.items(), s.prices.is_empty(), s.prices.remove("milk"), s.prices.put_all({})))

    assert kept.written == []


def test_an_emptied_map_is_not_stored() -> None:
    kept = scripted_table(PRICES)
    done(kept, lambda s, _: s.prices.put("tea", 2.0))

    done(kept, lambda s, _: s.prices.remove("tea"))

    assert done(kept, lambda s, _: s.prices.is_empty()) is True
    assert kept.entries == {}


@pytest.mark.parametrize("reduce", [Greatest(), max])
def test_values_added_to_reducing_state_are_reduced(reduce: Any) -> None:
    kept = scripted_table(ReducingStateDescriptor("greatest", reduce, "bigint"))
    assert done(kept, lambda s, _: s.greatest.get()) is None

    for value in (3, 5, 4):
        done(kept, lambda s, _, value=value: s.greatest.add(value))  # type: ignore[misc]

    assert done(kept, lambda s, _: s.greatest.get()) == 5


def test_values_added_to_aggregating_state_are_aggregated() -> None:
    kept = scripted_table(AVERAGE)
    assert done(kept, lambda s, _: s.average.get()) is None

    for value in (1, 2, 6):
        done(kept, lambda s, _, value=value: s.average.add(value))  # type: ignore[misc]

    assert done(kept, lambda s, _: s.average.get()) == 3.0
    assert kept.state("average") == {"a": {"sum": 9, "count": 3}}


def test_an_aggregate_function_gets_its_accumulator_in_one_type_only() -> None:
    seen = []

    class Tuples(AggregateFunction[int, Any, int]):
        def create_accumulator(self) -> Any:
            return (0, 0)

        def add(self, value: int, accumulator: Any) -> Any:
            seen.append(type(accumulator))
            return (accumulator[0] + value, accumulator[1] + 1)

        def get_result(self, accumulator: Any) -> int:
            return int(accumulator[0])

    kept = scripted_table(AggregatingStateDescriptor("sum", Tuples(), "array<bigint>"))

    kept.process(*(scripted_row("a", lambda s, _: s.sum.add(1)) for _ in range(2)))
    kept.process(scripted_row("a", lambda s, _: s.sum.add(1)))

    assert seen == [list, list, list]


def test_an_accumulator_with_a_map_is_a_dict_before_and_after_storage() -> None:
    class Votes(AggregateFunction[str, dict[str, int], list[str]]):
        def create_accumulator(self) -> dict[str, int]:
            return {}

        def add(self, value: str, accumulator: dict[str, int]) -> dict[str, int]:
            accumulator[value] = accumulator.get(value, 0) + 1
            return accumulator

        def get_result(self, accumulator: dict[str, int]) -> list[str]:
            return sorted(accumulator.items())  # type: ignore[arg-type]

    kept = scripted_table(AggregatingStateDescriptor("votes", Votes(), "map<string,bigint>"))

    for _ in range(2):
        kept.process(*(scripted_row("a", lambda s, _: s.votes.add("x")) for _ in range(2)))

    assert done(kept, lambda s, _: s.votes.get()) == [("x", 4)]


def test_a_value_of_another_type_is_refused_and_the_old_value_stays() -> None:
    kept = scripted_table(COUNT)
    done(kept, lambda s, _: s.count.update(1))

    def update(s: Any, _: Any) -> Any:
        with pytest.raises(StateValueError, match="state 'count' of type bigint cannot hold '2': an int is needed"):
            s.count.update("2")
        return s.count.value()

    assert done(kept, update) == 1


@pytest.mark.parametrize("ttl", [None, StateTtlConfig.new_builder("1 day").build()], ids=["for ever", "with a TTL"])
def test_nan_and_zero_are_found_in_a_map_at_once_and_later(ttl: StateTtlConfig | None) -> None:
    numbers = MapStateDescriptor("numbers", "double", "string")
    if ttl is not None:
        numbers.enable_time_to_live(ttl)
    kept = scripted_table(numbers)

    def put(s: Any, _: Any) -> None:
        s.numbers.put_all({float("nan"): "nan", -0.0: "zero"})
        s.numbers.put(float("nan"), "nan again")

    def read(s: Any, _: Any) -> tuple[Any, ...]:
        values = s.numbers.get(float("nan")), s.numbers.get(0.0), s.numbers.contains(-0.0), len(s.numbers.keys())
        s.numbers.put(0.0, "again")
        return values

    done(kept, put)
    assert done(kept, read) == ("nan again", "zero", True, 2)
    assert done(kept, read) == ("nan again", "again", True, 2)
    done(kept, lambda s, _: s.numbers.remove(float("nan")))
    assert done(kept, lambda s, _: s.numbers.items()) == [(0.0, "again")]
