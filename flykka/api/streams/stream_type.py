"""The type of a stream's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from flykka.spark_bridge.program.prototype import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamType:
    """The type of a stream's rows: a prototype of them, and the column of their event time."""

    prototype: DataFrame
    event_time: str | None

    def of_rows(self, prototype: DataFrame, event_time: str | None = None) -> StreamType:
        """The type of rows that are made of these, with the same event time where its column is there.

        It may have another name, `event_time`.
        """
        column = self.event_time if event_time is None else event_time
        return StreamType(prototype=prototype, event_time=column if has_event_time(prototype, column) else None)
