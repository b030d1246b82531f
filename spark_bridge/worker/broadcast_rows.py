"""The rows of a broadcast variable: Arrow's bytes between the driver, checkpoints and workers, dicts for functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.worker.rows import dicts
from flykka.spark_bridge.worker.time_columns import as_held

if TYPE_CHECKING:
    from pyspark import Broadcast


def part_of(table: pa.Table) -> bytes:
    """Some rows as bytes; times are those of UTC, as functions see them."""
    rows = as_held(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def rows_of(parts: Iterable[bytes]) -> list[Row]:
    return [row for part in parts for row in dicts(pa.ipc.open_stream(part).read_all())]


class RowsOfBroadcast:
    """The rows in a worker, which reads them once."""

    def __init__(self, parts: Broadcast[tuple[bytes, ...]]) -> None:
        self._parts = parts
        self._rows: list[Row] | None = None

    def __call__(self) -> list[Row]:
        if self._rows is None:
            self._rows = rows_of(self._parts.value)
        return self._rows
