"""The type of a stream's rows, and whether they stay or take the place of earlier ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorCode
    from flykka.spark_bridge.program.prototype import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """Append-only where `keys` is None: every row stays. Else upserts: of rows that agree in the keys the newest holds.

    Without keys (an empty tuple) the newest row of all holds. Where rows can be deleted too, `row_kind` is the column
    that says so, as Flink's RowKind: of kind `-D` a row says that there is none of its key any more.
    """

    keys: tuple[str, ...] | None = None
    row_kind: str | None = None

    def renamed(self, names: Mapping[str, str], columns: Collection[str]) -> Changelog:
        """The changelog of rows of which some columns have new names; append-only where a key is not among them.

        Such rows are all that was ever emitted, and nothing tells which of them still hold.
        """
        if self.keys is None:
            return self
        keys = tuple(names.get(key, key) for key in self.keys)
        kind = None if self.row_kind is None else names.get(self.row_kind, self.row_kind)
        needed = keys if kind is None else (*keys, kind)
        return Changelog(keys=keys, row_kind=kind) if all(key in columns for key in needed) else APPEND_ONLY

    def __str__(self) -> str:
        if self.keys is None:
            return "append-only"
        kinds = "upserts" if self.row_kind is None else "upserts and deletes"
        return f"{kinds} by {', '.join(self.keys)}" if self.keys else f"{kinds} of one row"


APPEND_ONLY = Changelog()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamType:
    """The type of a stream's rows: a prototype of them, their event time, and whether they stay."""

    prototype: DataFrame
    event_time: EventTime | None
    changelog: Changelog = APPEND_ONLY

    def of_rows(self, prototype: DataFrame, renamed: Mapping[str, str] | None = None) -> StreamType:
        """The type of rows made of these, with event time and changelog where their columns are there.

        They may have been `renamed`.
        """
        changelog = self.changelog.renamed(renamed or {}, prototype.columns)
        before = self.event_time
        if before is None:
            return StreamType(prototype=prototype, event_time=None, changelog=changelog)
        column = (renamed or {}).get(before.column, before.column)
        event_time = replace(before, column=column) if has_event_time(prototype, column) else None
        return StreamType(prototype=prototype, event_time=event_time, changelog=changelog)

    def emitted_by(self, code: OperatorCode) -> StreamType:
        """The type of such rows where an operator emits them: its code knows whether they stay."""
        keys = code.upsert_keys
        return replace(self, changelog=Changelog(keys=keys) if keys else APPEND_ONLY)
