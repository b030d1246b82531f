"""State rows for tests, with so few positions that several keys share each position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION, Segment, read_segment, write_segment

Key = tuple[int | None, str]

SCHEMA = pa.schema(
    [
        (POSITION, pa.int64()),
        ("__key_0", pa.int64()),
        ("__key_1", pa.string()),
        ("total", pa.int64()),
        (VERSION, pa.int64()),
        (IS_DELETED, pa.bool_()),
    ]
)
STATE = pa.schema([SCHEMA.field("total")])


def position(key: Key) -> int:
    return hash(key[1]) % 3 if key[0] is None else key[0] % 3


def key_columns(keys: Iterable[Key]) -> pa.Table:
    listed = list(keys)
    return pa.table(
        {
            POSITION: pa.array([position(key) for key in listed], pa.int64()),
            "__key_0": pa.array([number for number, _ in listed], pa.int64()),
            "__key_1": pa.array([text for _, text in listed], pa.string()),
        }
    )


def state_rows(totals: Mapping[Key, int | None], version: int) -> pa.Table:
    """Return rows of one version, in any order; a total of None is a deletion."""
    values = list(totals.values())
    return (
        key_columns(totals)
        .append_column("total", pa.array([0 if value is None else value for value in values], pa.int64()))
        .append_column(VERSION, pa.array([version] * len(values), pa.int64()))
        .append_column(IS_DELETED, pa.array([value is None for value in values], pa.bool_()))
    )


def segment(path: Path, tables: Iterable[pa.Table]) -> Segment:
    return read_segment(path) if write_segment(path, SCHEMA, tables) else ()


def key_of(row: Mapping[str, object]) -> Key:
    number, text = row["__key_0"], row["__key_1"]
    assert number is None or isinstance(number, int)
    assert isinstance(text, str)
    return number, text
