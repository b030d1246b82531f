"""Tests state descriptors: the columns that they need, and the names and types that may be registered."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.spark_bridge.errors import StateDescriptorError, StateValueError
from flykka.spark_bridge.functions.current_key import CurrentKey
from flykka.spark_bridge.functions.keyed_states import KeyedStates
from flykka.spark_bridge.functions.metric_group import MetricGroup
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext, TaskInfo
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from tests.spark_bridge.functions.scripted import registered
from tests.spark_bridge.functions.test_state import Average

TTL = StateTtlConfig.new_builder("1 h").build()


def context() -> FunctionRuntimeContext:
    return FunctionRuntimeContext(TaskInfo(), KeyedStates(CurrentKey()), MetricGroup())


def descriptors() -> list[StateDescriptor]:
    return [
        ValueStateDescriptor("state", "long"),
        ListStateDescriptor("state", "long"),
        MapStateDescriptor("state", "string", "long"),
        ReducingStateDescriptor("state", max, "double"),
        AggregatingStateDescriptor("state", Average(), "struct<sum: long, count: long>"),
    ]


def test_each_state_is_one_column_plus_a_time_column_if_it_expires() -> None:
    made = descriptors()
    for each in made:
        assert each.touched_type is None
        each.enable_time_to_live(TTL)

    assert [(each.column_type, each.touched_type) for each in made] == [
        ("bigint", "bigint"),
        ("array<bigint>", "array<bigint>"),
        ("map<string,bigint>", "map<string,bigint>"),
        ("double", "bigint"),
        ("struct<sum:bigint,count:bigint>", "bigint"),
    ]


@pytest.mark.parametrize("number", range(5))
def test_the_same_descriptor_gives_the_same_state(number: int) -> None:
    opened = context()

    first, second = (registered(opened, descriptors()[number]) for _ in range(2))

    assert first is second


def with_ttl() -> StateDescriptor:
    descriptor = ValueStateDescriptor("state", "bigint")
    descriptor.enable_time_to_live(TTL)
    return descriptor


@pytest.mark.parametrize(
    ("other", "as_"),
    [
        (ValueStateDescriptor("state", "int"), "ValueStateDescriptor('state', 'int')"),
        (ValueStateDescriptor("state", "bigint", 0), "ValueStateDescriptor('state', 'bigint', default 0)"),
        (ListStateDescriptor("state", "bigint"), "ListStateDescriptor('state', 'array<bigint>')"),
        (ReducingStateDescriptor("state", max, "bigint"), "ReducingStateDescriptor('state', 'bigint')"),
        (with_ttl(), "ValueStateDescriptor('state', 'bigint', time-to-live 3600000 ms)"),
    ],
)
def test_an_error_shows_both_states_of_one_name(other: StateDescriptor, as_: str) -> None:
    opened = context()
    opened.get_state(ValueStateDescriptor("state", "bigint"))

    with pytest.raises(StateDescriptorError) as refused:
        registered(opened, other)

    assert str(refused.value) == (
        f"state 'state' is registered twice: as ValueStateDescriptor('state', 'bigint') and as {as_};"
        " give one of them another name"
    )


def test_two_names_that_differ_only_in_case_are_refused() -> None:
    opened = context()
    opened.get_state(ValueStateDescriptor("state", "bigint"))

    with pytest.raises(StateDescriptorError, match="states 'state' and 'STATE' differ only in upper and lower case"):
        opened.get_state(ValueStateDescriptor("STATE", "bigint"))


def test_a_descriptor_of_another_state_type_is_refused_with_the_correct_call() -> None:
    with pytest.raises(
        StateDescriptorError,
        match=r"get_state takes a ValueStateDescriptor, not ListStateDescriptor\(.*\); get_list_state takes this one",
    ):
        context().get_state(ListStateDescriptor("state", "bigint"))  # type: ignore[arg-type]


def test_a_value_that_is_not_a_descriptor_is_refused() -> None:
    with pytest.raises(StateDescriptorError, match="get_map_state takes a MapStateDescriptor, not 'state'"):
        context().get_map_state("state")  # type: ignore[arg-type]


def test_a_function_without_keys_has_no_keyed_state() -> None:
    without_keys = FunctionRuntimeContext(TaskInfo(), None, MetricGroup())

    with pytest.raises(StateDescriptorError, match="the stream has no keys, so Value"):
        without_keys.get_state(ValueStateDescriptor("state", "bigint"))


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_state_must_have_a_name(name: Any) -> None:
    with pytest.raises(StateDescriptorError, match="the name of a state must be a non-empty string, not"):
        ListStateDescriptor(name, "bigint")


def test_reserved_column_names_are_refused() -> None:
    with pytest.raises(StateDescriptorError, match="the name of state '__key_0' must not begin with two underscores"):
        MapStateDescriptor("__key_0", "string", "bigint")


def test_a_default_must_have_the_type_of_its_state() -> None:
    with pytest.raises(StateValueError, match="state 'count' of type bigint cannot hold 'none'"):
        ValueStateDescriptor("count", "bigint", "none")


@pytest.mark.parametrize("type_", ["array<int>", "struct<a:int>", "float"])
def test_keys_of_map_state_must_have_a_comparable_type(type_: str) -> None:
    with pytest.raises(
        StateDescriptorError, match=f"the keys of state 'm' are of type {type_}, whose values cannot be looked up"
    ):
        MapStateDescriptor("m", type_, "bigint")


def test_reducing_and_aggregating_state_need_their_functions() -> None:
    with pytest.raises(StateDescriptorError, match="state 's': a reduce function is a ReduceFunction or a function"):
        ReducingStateDescriptor("s", "sum", "bigint")  # type: ignore[arg-type]
    with pytest.raises(
        StateDescriptorError,
        match="state 's': an AggregateFunction is needed, with create_accumulator, add, get_result, not 'sum'",
    ):
        AggregatingStateDescriptor("s", "sum", "bigint")  # type: ignore[arg-type]
