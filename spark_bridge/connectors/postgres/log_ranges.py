"""The splits of a source of changes: first pages of the table, then ranges of the write-ahead log.

The table is read in one snapshot, after which the slot's changes are read. If the slot begins before the snapshot,
transactions visible in the snapshot are skipped, so a range of the log that may contain such transactions names the
snapshot. A transaction belongs to the range in which its commit record begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flykka.messages.tasks.source import SerializedSplit
from flykka.messages.wire.ids import SplitId
from flykka.spark_bridge.connectors.postgres.database import TableSnapshot
from flykka.spark_bridge.errors import SourceError

BYTES_PER_PAGE = 8192
PAGES_PER_SPLIT = 4096
LOG_BYTES_PER_SPLIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRange:
    """A table's pages from `first` to before `behind`; to the end of the table if `behind` is None."""

    first: int
    behind: int | None
    snapshot: TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The transactions whose commit records start in [`start`, `end`), without the transactions in `seen`.

    `columns` are the attribute numbers of the columns that the table had at `start`; None if unknown. `members` are the
    OIDs of the tables that contain its rows.
    """

    start: int
    end: int
    seen: str | None = None
    columns: tuple[int, ...] | None = None
    members: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class CdcPosition:
    """The position of a discovery: how far the table, and then the log, has been discovered.

    `lsn` is the start of the next range of the log, `until` the end of a bounded source. `snapshot` is set until all of
    the `pages` are discovered; `page` is the next page. `seen` are the transactions to skip up to `seen_to`. `columns`
    are the attribute numbers of the table's columns at `lsn`, None if unknown. `ignored` are columns without which
    changes were read, each with the position in the log at which that began. `members` are the OIDs of the tables with
    rows, each with the transactions that attached it; None if unknown.
    """

    lsn: int
    until: int | None = None
    snapshot: TableSnapshot | None = None
    page: int = 0
    pages: int = 0
    seen: str | None = None
    seen_to: int = 0
    splits: int = 0
    columns: tuple[int, ...] | None = None
    ignored: dict[str, int] = field(default_factory=dict)
    members: dict[str, str] | None = None

    @classmethod
    def read(cls, position: bytes) -> CdcPosition:
        """Parse a position that `written` has returned. Raises `SourceError` for other bytes."""
        try:
            content: Mapping[str, Any] = json.loads(position)
            snapshot, columns = content["snapshot"], content.get("columns")
            return cls(
                **{
                    **content,
                    "snapshot": None if snapshot is None else TableSnapshot(**snapshot),
                    "columns": None if columns is None else tuple(columns),
                }
            )
        except (ValueError, KeyError, TypeError):
            raise SourceError(
                f"the checkpoint's position {position!r} is not a position of a PostgresCdcSource"
            ) from None

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def next_pages(self) -> SerializedSplit:
        assert self.snapshot is not None, "pages are read without a snapshot"
        first, behind = self.page, self.page + PAGES_PER_SPLIT
        is_last = behind >= self.pages
        content = {"pages": [first, None if is_last else behind], "snapshot": asdict(self.snapshot)}
        size = (max(first + 1, min(behind, self.pages)) - first) * BYTES_PER_PAGE
        self.page = behind
        if is_last:
            self.snapshot = None
        return self._split(content, size)

    def next_log(self, end: int, members: Sequence[int]) -> SerializedSplit:
        seen = self.seen if self.lsn < self.seen_to else None
        content = {"log": [self.lsn, end], "seen": seen, "columns": self.columns, "members": members}
        size = end - self.lsn
        self.lsn = end
        return self._split(content, size)

    def _split(self, content: Mapping[str, object], size_bytes: int) -> SerializedSplit:
        self.splits += 1
        # The row count is unknown before the rows are read.
        return SerializedSplit(
            split_id=SplitId(str(self.splits)), rows=0, content=json.dumps(content), size_bytes=size_bytes
        )


def page_ranges(splits: Iterable[SerializedSplit]) -> tuple[PageRange, ...]:
    contents = [json.loads(split.content) for split in splits]
    return tuple(
        PageRange(first=each["pages"][0], behind=each["pages"][1], snapshot=TableSnapshot(**each["snapshot"]))
        for each in contents
        if "pages" in each
    )


def log_ranges(splits: Iterable[SerializedSplit]) -> tuple[LogRange, ...]:
    contents = [json.loads(split.content) for split in splits]
    return tuple(
        LogRange(
            start=each["log"][0],
            end=each["log"][1],
            seen=each["seen"],
            columns=None if each.get("columns") is None else tuple(each["columns"]),
            members=tuple(each.get("members", ())),
        )
        for each in contents
        if "log" in each
    )


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"a position in the write-ahead log is written like 0/16B3748, not {text!r}")
    return (int(high, 16) << 32) + int(low, 16)
