"""Tests that upserts become changes with the rows that they replace, batch by batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flykka.spark_bridge.worker.row_changes import ROW, NormalizeChanges


class Kept:
    """A function and its state; each batch gets the state of its keys."""

    def __init__(self, function: Any, rows: pa.Schema, state: pa.Schema) -> None:
        self._function = function
        self._rows = rows
        self._state = state
        self._kept: dict[tuple[Any, ...], dict[str, Any]] = {}

    def batch(self, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        table = pa.Table.from_pylist([dict(zip(self._rows.names, row, strict=True)) for row in rows], self._rows)
        keys = list(self._function.keys)
        keys_of_batch = dict.fromkeys(tuple(row[key] for key in keys) for row in table.select(keys).to_pylist())
        state = [self._kept.get(key, dict(zip(keys, key, strict=True))) for key in keys_of_batch]
        emitted, after = self._function(table, pa.Table.from_pylist(state, self._state))
        assert after.schema.equals(self._state)
        for row in after.to_pylist():
            self._kept[tuple(row[key] for key in keys)] = row
        return [tuple(row.values()) for row in emitted.to_pylist()]


COLUMNS = pa.schema([("key", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
CHANGES = COLUMNS.append(pa.field("kind", pa.string()))
ROWS_OF_KEY = pa.list_(pa.struct(list(COLUMNS)))


def test_an_updated_row_is_emitted_after_its_retraction() -> None:
    state = pa.schema([("id", pa.int64()), (ROW, pa.struct(list(COLUMNS)))])
    function = NormalizeChanges(keys=("id",), columns=tuple(COLUMNS.names), row_kind="kind", emitted_kind="said")
    changes = Kept(function, CHANGES, state)

    assert changes.batch(("a", 1, 1, "+I"), ("a", 2, 2, "+I"), ("b", 1, 3, "+U")) == [
        ("b", 1, 3, "+I"),
        ("a", 2, 2, "+I"),
    ]
    assert changes.batch(("b", 1, 3, "-U"), ("b", 1, 4, "+U"), ("a", 2, 2, "+U")) == [
        ("b", 1, 3, "-U"),
        ("b", 1, 4, "+U"),
    ]
    assert changes.batch(("b", 1, 9, "-D"), ("x", 7, 7, "-D")) == [("b", 1, 4, "-D")]
    assert changes.batch(("c", 1, 5, "+I")) == [("c", 1, 5, "+I")]
