"""Tests that Arrow's rows become the dicts that `to_pylist` would create."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flykka.spark_bridge.worker.rows import dicts, listed

MICROS = [0, -1, 1_700_000_000_123_456, None, 253_402_300_799_999_999, -62_135_596_800_000_000]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", None])
def test_times_equal_those_of_arrow(zone: str | None) -> None:
    column = pa.chunked_array([MICROS[:2], MICROS[2:4]], pa.int64()).cast(pa.timestamp("us", zone))

    assert listed(column) == column.to_pylist()
    assert listed(pa.array(MICROS, pa.int64()).cast(pa.timestamp("us", "UTC")))[4:] == [
        value.as_py() for value in pa.array(MICROS[4:], pa.int64()).cast(pa.timestamp("us", "UTC"))
    ]


@pytest.mark.parametrize("names", [["plain"], ["a'b", 'c"d', "{e}", "for", "ü", ""]], ids=["one", "odd names"])
def test_columns_of_any_name_become_dicts(names: list[str]) -> None:
    table = pa.table([pa.array([place, None]) for place in range(len(names))], names=names)

    assert dicts(table) == table.to_pylist()
    assert dicts(table, names[:1]) == table.select(names[:1]).to_pylist()
