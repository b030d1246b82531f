"""The type of a stream's rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.program.prototype import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamType:
    """The type of a stream's rows: a prototype of them, and their event time."""

    prototype: DataFrame
    event_time: EventTime | None

    def of_rows(self, prototype: DataFrame, renamed: Mapping[str, str] | None = None) -> StreamType:
        """The type of rows that are made of these, with the same event time where its column is there.

        That may have been `renamed`.
        """
        before = self.event_time
        if before is None:
            return StreamType(prototype=prototype, event_time=None)
        column = (renamed or {}).get(before.column, before.column)
        event_time = replace(before, column=column) if has_event_time(prototype, column) else None
        return StreamType(prototype=prototype, event_time=event_time)
