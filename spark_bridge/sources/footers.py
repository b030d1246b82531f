"""What the footer of a parquet file says without reading a row: how many there are, and how late they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow
from pyarrow import fs
from pyarrow import parquet as pq

from flykka.spark_bridge.errors import UnreadableFileError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The rows of a file and, where its statistics say, the largest event time in ms."""

    rows: int
    event_time_max: int | None


def footer(path: str, event_time: str | None) -> Footer:
    """Read the footer of a file. Raises `UnreadableFileError`, naming it, where it is not parquet."""
    try:
        filesystem, inner = _located(path)
        with filesystem.open_input_file(inner) as file:
            metadata = pq.read_metadata(file)
    except (pyarrow.ArrowException, OSError) as broken:
        raise UnreadableFileError(f"cannot read {path} as parquet: {broken}") from broken
    latest = None if event_time is None else _latest(metadata, event_time)
    return Footer(rows=metadata.num_rows, event_time_max=latest)


def _located(path: str) -> tuple[Any, str]:
    if path.startswith(("/", "file:")):
        # Hadoop writes `file:/folder/name` and escapes nothing.
        return fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    filesystem, inner = fs.FileSystem.from_uri(path)
    return filesystem, inner


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
        maximum = statistics.max if statistics.max.tzinfo else statistics.max.replace(tzinfo=UTC)
        # Upwards never: a watermark must not run ahead of the rows. Downwards costs less than a millisecond.
        in_ms = (maximum - _EPOCH) // _MILLISECOND
        latest = in_ms if latest is None else max(latest, in_ms)
    return latest
