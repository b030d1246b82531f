"""The type of a stream's rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.api.streams.changelog import APPEND_ONLY, Changelog
from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorCode
    from flykka.spark_bridge.program.prototype import DataFrame


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
