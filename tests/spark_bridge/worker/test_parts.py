"""Tests that partial aggregates are merged as Spark's own aggregates would be."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flykka.spark_bridge.worker.parts import MergeParts, PartFunction
from flykka.spark_bridge.worker.process_batch import KeyedBatch
from flykka.spark_bridge.worker.segment_file import POSITION

NAN = float("nan")
NOON, HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)


def merged_part(
    function: PartFunction, data_type: pa.DataType, kept: Any, new: list[Any], wrapping: frozenset[str] = frozenset()
) -> Any:
    """Return the stored part of a single key after merging these parts."""
    rows = {POSITION: [1] * len(new), "__key_0": [1] * len(new), "part": pa.array(new, data_type)}
    batch = KeyedBatch(pa.table(rows))
    state = pa.table({"part": pa.array([kept], data_type)})
    processed = MergeParts(functions={"part": function}, wrapping=wrapping).process(batch, state)
    assert processed.rows.column_names == ["__key_0", "part"]
    assert processed.state.schema == state.schema
    (part,) = processed.state.column("part").to_pylist()
    return part


@pytest.mark.parametrize(
    ("function", "data_type", "kept", "new", "wanted"),
    [
        pytest.param("sum", pa.int64(), 4, [1, 2], 7, id="sum"),
        pytest.param("sum", pa.int64(), None, [1, None, 2], 3, id="sum of nulls and others"),
        pytest.param("sum", pa.int64(), None, [None, None], None, id="sum of nulls"),
        pytest.param("sum", pa.int64(), 4, [None], 4, id="sum and null"),
        pytest.param("sum", pa.float64(), 0.5, [NAN], NAN, id="sum with NaN"),
        pytest.param(
            "sum", pa.decimal128(38, 2), Decimal("1.10"), [Decimal("2.20")] * 2, Decimal("5.50"), id="sum of decimals"
        ),
        pytest.param("min", pa.int64(), 4, [None, 7], 4, id="min"),
        pytest.param("min", pa.float64(), NAN, [7.0], 7.0, id="NaN is not the least"),
        pytest.param("max", pa.int64(), None, [7, 4], 7, id="max"),
        pytest.param("max", pa.float64(), 7.0, [NAN, 8.0], NAN, id="NaN is the greatest"),
        pytest.param("max", pa.string(), "b", ["a", "c"], "c", id="max of texts"),
        pytest.param("max", pa.timestamp("us", "UTC"), NOON, [None, NOON + HOUR], NOON + HOUR, id="max of times"),
        pytest.param("min", pa.date32(), NOON.date(), [None], NOON.date(), id="min of dates"),
        pytest.param("min", pa.bool_(), True, [False, True], False, id="min of booleans"),
    ],
)
def test_parts_are_merged_by_their_functions(
    function: str, data_type: pa.DataType, kept: Any, new: list[Any], wanted: Any
) -> None:
    result = merged_part(PartFunction(function), data_type, kept, new)

    assert result == wanted or (isinstance(wanted, float) and math.isnan(wanted) and math.isnan(result))


@pytest.mark.parametrize("new", [[1], [1, 1]], ids=["one row", "two rows"])
def test_an_overflowing_sum_is_an_error(new: list[int]) -> None:
    with pytest.raises(OverflowError, match="running sum is too large for its type, int64"):
        merged_part(PartFunction.SUM, pa.int64(), 2**63 - 1, new)


@pytest.mark.parametrize(
    ("data_type", "greatest"), [(pa.int64(), 2**63 - 1), (pa.decimal128(38, 1), Decimal("9" * 37 + ".9"))], ids=str
)
def test_a_sum_that_overflows_only_temporarily_is_exact(data_type: pa.DataType, greatest: Any) -> None:
    least = greatest.copy_negate() if isinstance(greatest, Decimal) else -greatest

    assert merged_part(PartFunction.SUM, data_type, least, [greatest, 1]) == 1
    assert merged_part(PartFunction.SUM, data_type, 2, [greatest, -2, greatest, least]) == greatest


def test_a_wrapping_sum_keeps_its_lowest_bits() -> None:
    assert merged_part(PartFunction.SUM, pa.int64(), 2**63 - 1, [1, 2**63 - 1], frozenset({"part"})) == -1
    assert merged_part(PartFunction.SUM, pa.int64(), 2**63 - 1, [1], frozenset({"part"})) == -(2**63)


def test_an_overflowing_sum_of_one_batch_is_an_error() -> None:
    with pytest.raises(OverflowError, match="running sum is too large for its type, int64"):
        merged_part(PartFunction.SUM, pa.int64(), None, [2**63 - 1, 1])


def test_parts_with_weights_are_emitted_before_and_after_a_batch() -> None:
    rows = {POSITION: [1, 2], "__key_0": [1, 2], "part": [3, 4], "rows": [1, 1]}
    state = pa.table({"part": pa.array([5, None], pa.int64()), "rows": pa.array([1, None], pa.int64())})
    functions = {"part": PartFunction.SUM, "rows": PartFunction.SUM}

    processed = MergeParts(functions=functions, weight="weight").process(KeyedBatch(pa.table(rows)), state)

    assert processed.rows.to_pylist() == [
        {"__key_0": 1, "part": 5, "rows": 1, "weight": -1},
        {"__key_0": 1, "part": 8, "rows": 2, "weight": 1},
        {"__key_0": 2, "part": 4, "rows": 1, "weight": 1},
    ]
    assert processed.state.num_rows == 2
