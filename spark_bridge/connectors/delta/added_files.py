"""The log's entries for files that Spark has staged, with the statistics that Delta's own writer for Spark has.

Readers pass over files by these numbers: bounds of texts are cut as Delta cuts them, times to milliseconds. delta-rs
finds nothing by a column that has no bounds beside one that has: so all columns have bounds, or none in the file.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyarrow import parquet as pq

from flykka.spark_bridge.connectors.delta.staged_files import StagedFile, opened

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

_PREFIX = 32
"""Delta's bounds of texts have so many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNumbers:
    """Numbers of a file: its rows, the nulls in each column, and bounds of all columns that have an order, or of none.

    Columns with columns in them have no numbers.
    """

    rows: int
    nulls: Mapping[str, int]
    lowest: Mapping[str, object]
    highest: Mapping[str, object]


def numbers_in(path: str) -> FileNumbers:
    """The numbers in the footer of a parquet file."""
    with opened(path) as file:
        metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    nulls: dict[str, int] = {}
    bounds: dict[str, tuple[object, object] | None] = {}
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        if column.path != column.name:
            continue
        chunks = [group.column(place) for group in groups]
        has_values = [chunk for chunk in chunks if _nulls(chunk) != chunk.num_values]
        if all(_nulls(chunk) is not None for chunk in chunks):
            nulls[column.name] = sum(_nulls(chunk) or 0 for chunk in chunks)
        is_binary = column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "NONE"
        if has_values and not is_binary:
            bounds[column.name] = _bounds([chunk.statistics for chunk in has_values])
    known = {name: found for name, found in sorted(bounds.items()) if found is not None}
    complete = known if len(known) == len(bounds) else {}
    return FileNumbers(
        rows=metadata.num_rows,
        nulls=nulls,
        lowest={name: low for name, (low, _) in complete.items()},
        highest={name: high for name, (_, high) in complete.items()},
    )


def added(file: StagedFile, numbers: FileNumbers, lacks: Sequence[str]) -> AddAction:
    """The entry of a file that `lacks` some columns of the table, which are null in it."""
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": numbers.rows,
        **({"minValues": numbers.lowest, "maxValues": numbers.highest} if numbers.lowest else {}),
        "nullCount": {**numbers.nulls, **dict.fromkeys(lacks, numbers.rows)},
    }
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=now_ms(),
        data_change=True,
        stats=_json(stats),
    )


def now_ms() -> int:
    """The time that a commit notes of its entries: it says how long vacuum keeps what was removed."""
    return time.time_ns() // 1_000_000


def _nulls(chunk: Any) -> int | None:
    return None if chunk.statistics is None else chunk.statistics.null_count


def _bounds(statistics: Sequence[Any]) -> tuple[object, object] | None:
    """The bounds of the values in parts of a column; None where a part has none, or they cannot be written."""
    if not all(part is not None and part.has_min_max for part in statistics):
        return None
    try:
        values = [(part.min, part.max) for part in statistics]
    except (ValueError, OverflowError):
        # A date that Python does not have, or bytes that are no text.
        return None
    # NaN has no place between bounds.
    if any(isinstance(value, float) and math.isnan(value) for pair in values for value in pair):
        return None
    low, high = min(low for low, _ in values), max(high for _, high in values)
    highest = _after_texts_that_begin_like(high) if isinstance(high, str) else high
    return None if highest is None else (low[:_PREFIX] if isinstance(low, str) else low, highest)


def _after_texts_that_begin_like(text: str) -> str | None:
    """The text, or a short one that is greater: a prefix, with a last character that is above the next one."""
    if len(text) <= _PREFIX:
        return text
    for length in range(_PREFIX, len(text)):
        if text[length] < "\x7f":
            return f"{text[:length]}\x7f"
        if text[length] < "\U0010ffff":
            return f"{text[:length]}\U0010ffff"
    return None


def _json(value: object) -> str:
    """Statistics as JSON. It has numbers of any length for decimals, and texts for what are no numbers of its own."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(name)}: {_json(part)}" for name, part in value.items()) + "}"
        case Decimal():
            return format(value, "f")
        case float() if math.isinf(value):
            return '"Infinity"' if value > 0 else '"-Infinity"'
        case datetime():
            in_utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            # Cut to milliseconds: by the protocol readers add one to an upper bound.
            return json.dumps(in_utc.isoformat(timespec="milliseconds") + ("" if value.tzinfo is None else "Z"))
        case date():
            return json.dumps(value.isoformat())
        case _:
            return json.dumps(value)
