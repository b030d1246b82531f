"""Tests that one row of each key is kept: the least, the greatest, or the result of a reduce function."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.worker.process_batch import BatchFunction, KeyedBatch
from flykka.spark_bridge.worker.row_per_key import HAS_ROW, KeepExtremeRow, ReduceRows
from flykka.spark_bridge.worker.segment_file import POSITION

NAN = float("nan")


class Keeping:
    def __init__(self, function: BatchFunction, data_type: pa.DataType) -> None:
        self.function = function
        self.schema = pa.schema([("value", data_type), ("place", pa.int64()), (HAS_ROW, pa.bool_())])
        self.state: dict[int, dict[str, Any]] = {}
        self.changed: list[int] = []

    def process(self, rows: list[tuple[int, Any, int]]) -> list[dict[str, Any]]:
        """Process a batch of keys, values and positions, and return the emitted rows."""
        keys = pa.array([key for key, _, _ in rows], pa.int64())
        values = pa.array([value for _, value, _ in rows], self.schema.field("value").type)
        places = pa.array([place for _, _, place in rows], pa.int64())
        batch = KeyedBatch(pa.table({"value": values, "place": places, "__key_0": keys, POSITION: keys}))
        listed = batch.keys["__key_0"].to_pylist()
        state = pa.Table.from_pylist([self.state.get(key, {}) for key in listed], self.schema)
        processed = self.function.process(batch, state)
        slots = range(len(listed)) if processed.changed is None else processed.changed.tolist()
        self.changed = [listed[slot] for slot in slots]
        self.state.update(zip(self.changed, processed.state.to_pylist(), strict=True))
        emitted: list[dict[str, Any]] = processed.rows.to_pylist()
        return emitted


@pytest.mark.parametrize(
    ("greatest", "data_type", "first", "then", "kept"),
    [
        pytest.param(False, pa.int64(), [5, 3, 3], [3, 4], 1, id="the first of the least"),
        pytest.param(False, pa.int64(), [5], [7, 3, 3], 2, id="a smaller value"),
        pytest.param(True, pa.int64(), [5, 7, 7], [7], 1, id="the first of the greatest"),
        pytest.param(True, pa.string(), ["a"], ["b", "c", "c"], 2, id="texts"),
        pytest.param(False, pa.int64(), [None, None], [None], 0, id="only nulls"),
        pytest.param(False, pa.int64(), [None], [4, None], 1, id="a value and nulls"),
        pytest.param(True, pa.float64(), [1.0, NAN], [2.0, NAN], 1, id="NaN is the greatest"),
        pytest.param(False, pa.float64(), [NAN], [2.0, None], 1, id="NaN is not the least"),
        pytest.param(True, pa.float64(), [None], [NAN], 1, id="NaN and null"),
        pytest.param(True, pa.bool_(), [False], [True, True], 1, id="booleans"),
    ],
)
def test_the_expected_row_of_each_key_is_kept(
    greatest: bool, data_type: pa.DataType, first: Any, then: Any, kept: int
) -> None:
    keeping = Keeping(KeepExtremeRow(column="value", is_greatest=greatest), data_type)

    keeping.process([(1, value, place) for place, value in enumerate(first)])
    (row,) = keeping.process([(1, value, place) for place, value in enumerate(then, start=len(first))])

    assert row["place"] == kept
    assert keeping.changed == ([1] if kept >= len(first) else [])
    value = [*first, *then][kept]
    assert row["value"] == value or (math.isnan(value) and math.isnan(row["value"]))


def test_exactly_one_row_per_key_of_the_batch_is_emitted() -> None:
    keeping = Keeping(KeepExtremeRow(column="value", is_greatest=False), pa.int64())

    keeping.process([(1, 4, 0), (2, 4, 1), (3, 4, 2)])
    emitted = keeping.process([(3, 1, 3), (1, 9, 4)])

    assert emitted == [{"value": 4, "place": 0}, {"value": 1, "place": 3}]


def reducing(function: Any) -> Keeping:
    return Keeping(ReduceRows(pickled=cloudpickle.dumps(function)), pa.int64())


def test_a_function_receives_its_last_result_and_the_next_row() -> None:
    keeping = reducing(lambda one, other: {"value": 10 * one["value"] + other["value"], "place": other["place"]})

    first = keeping.process([(1, 1, 0), (2, 5, 0), (1, 2, 1)])
    then = keeping.process([(1, 3, 2), (1, 4, 3)])

    assert first == [{"value": 12, "place": 1}, {"value": 5, "place": 0}]
    assert then == [{"value": 1234, "place": 3}]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda one, other: None, "must emit rows, as dicts by the names of their columns, not None"),
        (lambda one, other: {"value": 1}, "missing: place"),
        (
            lambda one, other: {"value": "x", "place": 1},
            "'value' is of type bigint, which cannot hold 'x', of type str",
        ),
    ],
    ids=["None", "too few columns", "another type"],
)
def test_a_value_that_is_not_a_row_is_refused_by_reduce(function: Any, text: str) -> None:
    keeping = reducing(function)

    with pytest.raises(FunctionOutputError, match=text):
        keeping.process([(1, 1, 0), (1, 2, 1)])


def test_an_error_of_the_function_shows_the_row() -> None:
    keeping = reducing(lambda one, other: one["no such column"])

    with pytest.raises(KeyError) as raised:
        keeping.process([(1, 1, 0), (1, 2, 1)])

    assert raised.value.__notes__ == ["flykka: at row {'value': 2, 'place': 1}"]
