"""Where a source's event time comes from, and how far behind it the watermark stays. Flink's names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkStrategy:
    """`delay_ms` is how long late rows are waited for, None where there is no event time.

    `timestamp_column` names the event-time column where the source does not name it itself. A source that has read
    nothing for `idle_timeout_ms` holds nobody back; None: it is always waited for.
    """

    delay_ms: int | None
    timestamp_column: str | None = None
    idle_timeout_ms: int | None = None

    @classmethod
    def for_bounded_out_of_orderness(cls, delay: Duration) -> Self:
        """Rows come at most `delay` after a row with a later event time; what comes later still is late.

        Raises:
            DurationError: the delay cannot be read.
        """
        return cls(delay_ms=duration_ms(delay, "watermark delay"))

    @classmethod
    def for_monotonous_timestamps(cls) -> Self:
        """Rows come in the order of their event time."""
        return cls(delay_ms=0)

    @classmethod
    def no_watermarks(cls) -> Self:
        """The stream has no event time: it cannot be windowed by it."""
        return cls(delay_ms=None)

    def with_timestamp_column(self, column: str) -> Self:
        """The same strategy over this timestamp column (Flink's withTimestampAssigner)."""
        return replace(self, timestamp_column=column)

    def with_idleness(self, idle_timeout: Duration) -> Self:
        """The same strategy for a source that may fall silent: after `idle_timeout` without rows others go on alone.

        It is measured in real time, per subtask. With the next rows the source is waited for again.

        Raises:
            DurationError: the time cannot be read, or is none.
        """
        return replace(self, idle_timeout_ms=positive_duration_ms(idle_timeout, "idle timeout"))
