"""The log's entries for files that Spark has staged, with the numbers that their footers give.

Readers pass over files by these numbers, so bounds that are not exact are left out: those of decimals, and of floating
point numbers, between which NaN has no place.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from pyarrow import parquet as pq

from flykka.spark_bridge.connectors.delta.staged_files import StagedFile, opened

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

_TEXT_MAX = 64
"""Bounds of texts that are longer make the log large and few files to be passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNumbers:
    """Numbers of a file: of its rows, of the nulls in each column, and the bounds of what else is in them."""

    rows: int
    nulls: Mapping[str, int]
    lowest: Mapping[str, object]
    highest: Mapping[str, object]


def numbers_in(path: str) -> FileNumbers:
    """The numbers in the footer of a parquet file; columns with columns in them have none."""
    with opened(path) as file:
        metadata = pq.read_metadata(file)
    nulls: Counter[str] = Counter()
    bounds: dict[str, list[tuple[Any, Any]]] = {}
    unknown: set[str] = set()
    unbounded: set[str] = set()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            name, found = chunk.path_in_schema, chunk.statistics
            if "." in name or found is None or found.null_count is None:
                unknown.add(name)
                continue
            nulls[name] += found.null_count
            if found.has_min_max:
                bounds.setdefault(name, []).append((found.min, found.max))
            elif found.null_count < chunk.num_values:
                unbounded.add(name)
    known = {name: values for name, values in sorted(bounds.items()) if name not in unknown | unbounded}
    lowest = {name: _written(min(low for low, _ in values)) for name, values in known.items()}
    highest = {name: _written(max(high for _, high in values)) for name, values in known.items()}
    exact = [name for name in known if lowest[name] is not None and highest[name] is not None]
    return FileNumbers(
        rows=metadata.num_rows,
        nulls={name: number for name, number in sorted(nulls.items()) if name not in unknown},
        lowest={name: lowest[name] for name in exact},
        highest={name: highest[name] for name in exact},
    )


def added(file: StagedFile, numbers: FileNumbers) -> AddAction:
    """The entry of a file."""
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": numbers.rows,
        "minValues": numbers.lowest,
        "maxValues": numbers.highest,
        "nullCount": numbers.nulls,
    }
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=now_ms(),
        data_change=True,
        stats=json.dumps(stats),
    )


def now_ms() -> int:
    """The time that a commit notes of its entries: it says how long vacuum keeps what was removed."""
    return time.time_ns() // 1_000_000


def _written(value: object) -> object:
    """A bound as statistics have it; None where it is left out."""
    match value:
        case bool():
            return None
        case int():
            return value
        case str():
            return value if len(value) <= _TEXT_MAX else None
        case datetime():
            in_utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            # Cut to milliseconds: by the protocol readers add one to an upper bound.
            return in_utc.isoformat(timespec="milliseconds") + ("" if value.tzinfo is None else "Z")
        case date():
            return value.isoformat()
        case _:
            return None
