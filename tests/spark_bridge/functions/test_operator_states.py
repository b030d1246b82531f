"""Tests operator state: registered once, restored from lists, and refused on a mismatch."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from flykka.messages.state.handles import OperatorStateMode
from flykka.spark_bridge.errors import StateDescriptorError, StateValueError
from flykka.spark_bridge.functions.checkpointed_function import OperatorStateStore
from flykka.spark_bridge.functions.operator_states import Lists, OperatorStates
from flykka.spark_bridge.functions.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig

NUMBERS = ListStateDescriptor("numbers", "int")
RULES = MapStateDescriptor("rules", "string", "double")


def lists_of(register: Callable[[OperatorStateStore], object]) -> Lists:
    """Return the lists of a function with this `initialize_state`."""
    states = OperatorStates()
    register(OperatorStateStore(states))
    return states.lists()


def with_ttl() -> StateDescriptor:
    descriptor = ListStateDescriptor("short", "int")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder("1 day").build())
    return descriptor


def test_lists_and_maps_are_restored_from_a_checkpoint() -> None:
    def register(store: OperatorStateStore) -> None:
        store.get_list_state(NUMBERS).add_all([3, 4])
        store.get_union_list_state(ListStateDescriptor("places", "struct<name: string>")).add({"name": "here"})
        store.get_broadcast_state(RULES).put_all({"big": 10.0, "none": None})

    store = OperatorStateStore(OperatorStates(lists_of(register)))

    assert store.get_list_state(NUMBERS).get() == [3, 4]
    assert store.get_union_list_state(ListStateDescriptor("places", "struct<name: string>")).get() == [{"name": "here"}]
    assert store.get_broadcast_state(RULES).items() == [("big", 10.0), ("none", None)]


def test_lists_of_several_subtasks_are_concatenated() -> None:
    piece = lists_of(lambda store: store.get_list_state(NUMBERS).add(1))
    other = lists_of(lambda store: store.get_list_state(NUMBERS).add(2))

    assert OperatorStateStore(OperatorStates((*piece, *other))).get_list_state(NUMBERS).get() == [1, 2]


def test_a_wider_type_is_restored_from_a_checkpoint() -> None:
    held = lists_of(lambda store: store.get_list_state(NUMBERS).add(7))

    (widened,) = OperatorStateStore(OperatorStates(held)).get_list_state(ListStateDescriptor("numbers", "double")).get()

    assert isinstance(widened, float)
    assert widened == 7.0
    (decimal,) = (
        OperatorStateStore(OperatorStates(held)).get_list_state(ListStateDescriptor("numbers", "decimal(10,0)")).get()
    )
    assert isinstance(decimal, Decimal)
    assert decimal == 7


def test_an_error_shows_the_value_that_does_not_match_the_type() -> None:
    held = lists_of(lambda store: store.get_list_state(NUMBERS).add(7))

    with pytest.raises(StateValueError, match=r"'numbers' of type string cannot hold 7"):
        OperatorStateStore(OperatorStates(held)).get_list_state(ListStateDescriptor("numbers", "string"))


def test_a_split_list_is_not_restored_as_a_union_list() -> None:
    held = lists_of(lambda store: store.get_list_state(NUMBERS).add(7))

    with pytest.raises(StateDescriptorError, match="'numbers' of the checkpoint was registered by get_list_state"):
        OperatorStateStore(OperatorStates(held)).get_union_list_state(NUMBERS)


def test_registering_the_same_state_twice_returns_one_state() -> None:
    store = OperatorStateStore(OperatorStates())

    assert store.get_list_state(NUMBERS) is store.get_list_state(ListStateDescriptor("numbers", "int"))


@pytest.mark.parametrize(
    ("register", "said"),
    [
        (lambda store: store.get_list_state(ListStateDescriptor("numbers", "string")), "registered twice: by get_list"),
        (
            lambda store: store.get_union_list_state(NUMBERS),
            "registered twice: by get_list_state as .* and by get_unio",
        ),
        (lambda store: store.get_broadcast_state(NUMBERS), "get_broadcast_state takes a MapStateDescriptor"),
        (lambda store: store.get_list_state(ValueStateDescriptor("one", "int")), "takes a ListStateDescriptor"),
        (lambda store: store.get_list_state(with_ttl()), "operator state cannot have a time-to-live"),
    ],
)
def test_an_invalid_state_is_an_error(register: Callable[[OperatorStateStore], object], said: str) -> None:
    store = OperatorStateStore(OperatorStates())
    store.get_list_state(NUMBERS)

    with pytest.raises(StateDescriptorError, match=said):
        register(store)


def test_a_state_cannot_be_registered_after_initialize_state() -> None:
    states = OperatorStates()
    states.complete()

    with pytest.raises(StateDescriptorError, match=r"registered too late: do it in initialize_state\(context\)"):
        OperatorStateStore(states).get_list_state(NUMBERS)


def test_the_schema_names_elements_and_modes() -> None:
    states = OperatorStates()
    store = OperatorStateStore(states)
    store.get_list_state(NUMBERS)
    store.get_broadcast_state(RULES)

    assert [(each.name, each.element, each.mode) for each in states.schema] == [
        ("numbers", "int", OperatorStateMode.SPLIT_DISTRIBUTE),
        ("rules", "struct<key:string,value:double>", OperatorStateMode.BROADCAST),
    ]
