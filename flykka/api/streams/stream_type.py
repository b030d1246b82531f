"""The type of a stream's rows, and its changelog: append-only rows, upserts or changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorCode
    from flykka.spark_bridge.program.prototype import DataFrame


class ChangelogMode(StrEnum):
    """The kinds of rows in a changelog, by the names in Flink's `ChangelogMode`.

    With ALL a row of kind `-U` or `-D` contains all values of a row that is replaced or deleted.
    """

    UPSERT = "upsert"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """Describes how rows change earlier rows; without `keys`, `row_kind` and `weight` the stream is append-only.

    With keys, rows are upserts: a row replaces the previous row with the same keys. If the tuple of keys is empty, each
    row replaces the previous row. If rows can be deleted, `row_kind` is the column with Flink's RowKind: a row of kind
    `-D` deletes the row with its key. Without keys, rows with a `row_kind` are changes: `+I` adds a row, `-D` removes
    an equal row. Within a query, a `weight` column may replace the kinds: it counts how many equal rows are added, or
    removed if it is negative. Keys of weighted rows mean that each key has at most one row, and that all of its changes
    come from one subtask.
    """

    keys: tuple[str, ...] | None = None
    row_kind: str | None = None
    weight: str | None = None

    @property
    def is_upserts(self) -> bool:
        return self.keys is not None and self.weight is None

    def renamed(self, names: Mapping[str, str], columns: Collection[str]) -> Changelog:
        """Return the changelog after columns were renamed or dropped; append-only if a key was dropped.

        Without its keys, the stream is a history of rows that does not show which rows are current.
        """
        keys = None if self.keys is None else tuple(names.get(key, key) for key in self.keys)
        kind, weight = (None if name is None else names.get(name, name) for name in (self.row_kind, self.weight))
        if weight is not None and not set(keys or ()) <= set(columns):
            keys = None
        needed = [*(keys or ()), *(name for name in (kind, weight) if name is not None)]
        return replace(self, keys=keys, row_kind=kind, weight=weight) if set(needed) <= set(columns) else APPEND_ONLY

    def __str__(self) -> str:
        if self.keys is None:
            return "append-only" if self == APPEND_ONLY else "changes of whole rows"
        kinds = "upserts" if self.row_kind is None else "upserts and deletes"
        return f"{kinds} by {', '.join(self.keys)}" if self.keys else f"{kinds} of one row"


APPEND_ONLY = Changelog()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamType:
    prototype: DataFrame
    event_time: EventTime | None
    changelog: Changelog = APPEND_ONLY

    def of_rows(self, prototype: DataFrame, renamed: Mapping[str, str] | None = None) -> StreamType:
        """Return the type of derived rows, with event time and changelog if their columns still exist.

        `renamed` maps old to new column names.
        """
        changelog = self.changelog.renamed(renamed or {}, prototype.columns)
        before = self.event_time
        if before is None:
            return StreamType(prototype=prototype, event_time=None, changelog=changelog)
        column = (renamed or {}).get(before.column, before.column)
        event_time = replace(before, column=column) if has_event_time(prototype, column) else None
        return StreamType(prototype=prototype, event_time=event_time, changelog=changelog)

    def emitted_by(self, code: OperatorCode) -> StreamType:
        keys = code.upsert_keys
        return replace(self, changelog=Changelog(keys=keys) if keys else APPEND_ONLY)
