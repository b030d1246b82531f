"""Tests the lookup of keys by their values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.worker.keys import key_numbers

KEYS = st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from("abc"))
NAN = float("nan")


def key_table(keys: list[tuple[int | None, str | None]]) -> pa.Table:
    return pa.table(
        {
            "number": pa.array([number for number, _ in keys], pa.int64()),
            "text": pa.array([text for _, text in keys], pa.string()),
        }
    )


@given(st.lists(KEYS, unique=True), st.lists(KEYS))
def test_a_key_is_found_at_its_position_or_not_at_all(
    known: list[tuple[int | None, str | None]], keys: list[tuple[int | None, str | None]]
) -> None:
    numbers = key_numbers(key_table(known), key_table(keys))

    assert numbers.tolist() == [known.index(key) if key in known else -1 for key in keys]


@pytest.mark.parametrize(
    ("values", "data_type"),
    [([NAN, None, 1.0], pa.float64()), ([[1], None, [1, 2]], pa.list_(pa.int64())), ([True, None, False], pa.bool_())],
    ids=["NaN", "lists", "booleans"],
)
def test_keys_of_any_type_are_found(values: list[object], data_type: pa.DataType) -> None:
    known = pa.table({"key": pa.array(values, data_type)})

    assert key_numbers(known, known.take([2, 0, 1, 0])).tolist() == [2, 0, 1, 0]
