"""Tests that state values survive serialisation, whatever their type."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.functions.state_descriptors import stored_form
from flykka.spark_bridge.functions.stored_bytes import from_bytes, to_bytes
from tests.spark_bridge.functions.typed_values import types, values_of_type


@given(st.data())
def test_a_stored_value_round_trips(data: st.DataObject) -> None:
    type_ = data.draw(types())
    value = stored_form(type_, "state").stored(data.draw(values_of_type(type_)))

    assert from_bytes(to_bytes(value, type_), type_) == value
