"""Files in the log of a table: all files of a version, or the changes of one commit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from flykka.spark_bridge.connectors.delta.staged_files import read_bytes
from flykka.spark_bridge.connectors.delta.table import TableFacts
from flykka.spark_bridge.functions.times import millis_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import RemoveAction

    from flykka.spark_bridge.connectors.delta.table import TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A file in the log: its path, relative to the table or absolute, its partition, and its statistics.

    The latest event time is in ms. A statistic is None if the log lacks it.
    """

    path: str
    partition: Mapping[str, str | None]
    size_bytes: int
    rows: int | None = None
    event_time_max: int | None = None
    has_deletion_vector: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The changes that a commit made to the rows of a table. `facts` are set if it has changed properties of the table.

    Moving rows between files, such as in a compaction, is not a change.
    """

    added: tuple[AddedFile, ...] = ()
    removed: tuple[str, ...] = ()
    facts: TableFacts | None = None


def files_at(table: DeltaTable, event_time: str | None) -> Iterator[AddedFile]:
    """Yield all files of the version at which the table is open, in any order."""
    for entry in entries_at(table):
        latest = (entry["max"] or {}).get(event_time) if "max" in entry else None
        yield replace(file_of(entry), event_time_max=_in_ms(latest))


def entries_at(table: DeltaTable) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = pa.table(table.get_add_actions()).to_pylist()
    return entries


def file_of(entry: Mapping[str, Any]) -> AddedFile:
    return AddedFile(
        path=plain(entry["path"]),
        partition={name: text_of(value) for name, value in entry.get("partition", {}).items()},
        size_bytes=entry["size_bytes"],
        rows=entry["num_records"],
    )


def removal(file: AddedFile) -> RemoveAction:
    from deltalake.transaction import RemoveAction

    return RemoveAction(
        path=file.path,
        data_change=True,
        deletion_timestamp=now_ms(),
        size=file.size_bytes,
        partition_values=dict(file.partition),
    )


def now_ms() -> int:
    """From the time of a commit's entries, vacuum computes how long to keep removed files."""
    return time.time_ns() // 1_000_000


def commit_of(location: TableLocation, version: int, event_time: str | None) -> Commit:
    """Return the changes of one version. Raises `FileNotFoundError` if the log does not contain the version."""
    added: list[AddedFile] = []
    removed: list[str] = []
    protocol: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}
    for line in read_bytes(location.commit(version)).splitlines():
        match json.loads(line) if line.strip() else {}:
            case {"add": dict(entry)} if entry["dataChange"]:
                added.append(_added(entry, event_time))
            case {"remove": dict(entry)} if entry["dataChange"]:
                removed.append(plain(entry["path"]))
            case {"protocol": dict(entry)}:
                protocol = entry
            case {"metaData": dict(entry)}:
                metadata = entry
            case _:
                continue
    facts = None
    if protocol or metadata:
        facts = TableFacts(
            reader_features=protocol.get("readerFeatures") or (),
            writer_features=protocol.get("writerFeatures") or (),
            properties=metadata.get("configuration") or {},
            columns=json.loads(metadata["schemaString"]) if metadata else None,
        )
    return Commit(added=tuple(added), removed=tuple(removed), facts=facts)


def plain(path: str) -> str:
    """The log encodes paths like URIs."""
    return unquote(path)


def text_of(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _added(entry: Mapping[str, Any], event_time: str | None) -> AddedFile:
    stats = json.loads(entry.get("stats") or "{}")
    latest = (stats.get("maxValues") or {}).get(event_time)
    return AddedFile(
        path=plain(entry["path"]),
        partition=entry["partitionValues"],
        size_bytes=entry["size"],
        rows=stats.get("numRecords"),
        event_time_max=_in_ms(None if latest is None else datetime.fromisoformat(latest)),
        has_deletion_vector=entry.get("deletionVector") is not None,
    )


def _in_ms(latest: datetime | None) -> int | None:
    return None if latest is None else millis_of(latest)
