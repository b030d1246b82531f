"""Facts in the footer of a parquet file, read without a row: the number of rows, their latest time, their columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow
from pyarrow import parquet as pq

from flykka.spark_bridge.diagnosis.unreadable import plain_path
from flykka.spark_bridge.errors import UnreadableFileError
from flykka.spark_bridge.functions.times import millis_of

_TIMESTAMP = pyarrow.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The rows of a file, their largest event time in ms where the statistics say it, and their columns.

    `schema` is None where a column is of a type that arrow does not know; Spark may.
    """

    rows: int
    event_time_max: int | None
    schema: pyarrow.Schema | None


def footer(path: str, event_time: str | None, open_file: Callable[[str], Any]) -> Footer:
    """Read the footer of a file. Raises `UnreadableFileError`, naming it, where it is not parquet."""
    try:
        with open_file(path) as file:
            metadata = pq.read_metadata(file)
    except (pyarrow.ArrowException, OSError) as broken:
        raise UnreadableFileError(f"cannot read {plain_path(path)} as parquet: {broken}") from broken
    latest = None if event_time is None else _latest(metadata, event_time)
    return Footer(rows=metadata.num_rows, event_time_max=latest, schema=_schema(metadata.schema))


def _schema(parquet: Any) -> pyarrow.Schema | None:
    try:
        found = parquet.to_arrow_schema()
    except pyarrow.ArrowException:
        return None
    old = {column.path for column in map(parquet.column, range(len(parquet))) if column.physical_type == "INT96"}
    # Arrow takes an old timestamp for one in nanoseconds. Spark writes these, and reads them in microseconds.
    fields = (field.with_type(_TIMESTAMP) if field.name in old else field for field in found)
    return pyarrow.schema(fields) if old else found


def _latest(metadata: Any, column: str) -> int | None:
    """The maximum over the row groups, None where one does not know: old timestamps (INT96) have no statistics."""
    latest: int | None = None
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        chunks = (row_group.column(place) for place in range(row_group.num_columns))
        chunk = next((chunk for chunk in chunks if chunk.path_in_schema == column), None)
        statistics = None if chunk is None else chunk.statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.max, datetime):
            return None
        in_ms = millis_of(statistics.max)
        latest = in_ms if latest is None else max(latest, in_ms)
    return latest
