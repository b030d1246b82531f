"""Resources of a job in Python workers: cached files, and the rows of broadcast variables.

Rows are Arrow bytes in the driver, checkpoints and messages to workers, and dicts in functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import SparkFiles

from flykka.spark_bridge.errors import JobResourceError
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.job_resources import CachedFile
from flykka.spark_bridge.worker.rows import dicts
from flykka.spark_bridge.worker.time_columns import as_held

if TYPE_CHECKING:
    from pyspark import Broadcast


def on_executor(file: CachedFile) -> str:
    """Return the path of a cached file in a Python worker. Raises `JobResourceError` if the file is missing."""
    path = SparkFiles.get(file.unit)
    if not os.path.exists(path):
        raise JobResourceError(
            f"the cached file {file.name!r} of {file.registered} is missing on this executor, at {path}"
        )
    return path


def part_of(table: pa.Table) -> bytes:
    """Encode rows as bytes, with times in UTC as functions see them."""
    rows = as_held(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def rows_of(parts: Iterable[bytes]) -> list[Row]:
    return [row for part in parts for row in dicts(pa.ipc.open_stream(part).read_all())]


class BroadcastRows:
    """The rows of a variable in a worker, decoded once."""

    def __init__(self, parts: Broadcast[tuple[bytes, ...]]) -> None:
        self._parts = parts
        self._rows: list[Row] | None = None

    def __call__(self) -> list[Row]:
        if self._rows is None:
            self._rows = rows_of(self._parts.value)
        return self._rows
