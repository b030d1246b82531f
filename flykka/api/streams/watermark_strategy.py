"""The column of event time, and how far behind it the watermark stays. Flink's names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from flykka.api.streams.program import one_of
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import MonotonyViolationHandler, WatermarkAlignment
from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms

if TYPE_CHECKING:
    from flykka.api.streams.transformation import Transformation
    from flykka.spark_bridge.program.prototype import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkStrategy:
    """`delay_ms` is how long late rows are waited for, None where there is no event time.

    `timestamp_column` names the event-time column where the source does not name it itself. A source that has read
    nothing for `idle_timeout_ms` holds nobody back; None: it is always waited for. With a `quiet_period_ms` event time
    goes on by the clock behind it. With a `punctuation` the rows for which it is true mark the watermarks. With an
    `alignment` a source waits for others that are behind it.
    """

    delay_ms: int | None
    timestamp_column: str | None = None
    idle_timeout_ms: int | None = None
    quiet_period_ms: int | None = None
    on_violation: MonotonyViolationHandler | None = None
    punctuation: Column | str | None = None
    alignment: WatermarkAlignment | None = None

    @classmethod
    def for_bounded_out_of_orderness(cls, delay: Duration) -> Self:
        """Rows come at most `delay` after a row with a later event time; what comes later still is late.

        Raises:
            DurationError: the delay cannot be read.
        """
        return cls(delay_ms=duration_ms(delay, "watermark delay"))

    @classmethod
    def for_monotonous_timestamps(cls) -> Self:
        """Rows come in the order of their event time; what comes before it is late."""
        return cls(delay_ms=0, on_violation=MonotonyViolationHandler.IGNORE)

    @classmethod
    def for_punctuated_watermarks(cls, condition: Column | str) -> Self:
        """The rows for which `condition` is true say how far event time has come: to their own, all of it.

        A batch says the latest of its marks, behind its rows. (Flink's AssignerWithPunctuatedWatermarks.)
        """
        return cls(delay_ms=0, punctuation=condition)

    @classmethod
    def no_watermarks(cls) -> Self:
        """The stream has no event time: it cannot be windowed by it."""
        return cls(delay_ms=None)

    def with_violation_handler(self, handler: MonotonyViolationHandler | str) -> Self:
        """Choose the answer to a row that is older than the batches before it: IGNORE (unless set), LOG or FAIL.

        For `for_monotonous_timestamps` only. Within a batch rows have no order.

        Raises:
            ProgramError: there is no such handler, or the strategy does not ask for an order.
        """
        if self.on_violation is None:
            raise ProgramError("only for_monotonous_timestamps() asks for an order that can be violated")
        chosen = one_of(MonotonyViolationHandler, handler, "handler of violations")
        return replace(self, on_violation=chosen)

    def with_timestamp_column(self, column: str) -> Self:
        """The same strategy over this timestamp column (Flink's withTimestampAssigner)."""
        return replace(self, timestamp_column=column)

    def with_idleness(self, idle_timeout: Duration) -> Self:
        """The same strategy for a source that may fall silent: after `idle_timeout` without rows others go on alone.

        It is measured in real time, for each subtask and each partition of a source that has some, also for one that
        never had a row. With the next rows it is waited for again. Time in which rows wait to be read does not count.

        Raises:
            DurationError: the time cannot be read, or is none.
        """
        return replace(self, idle_timeout_ms=positive_duration_ms(idle_timeout, "idle timeout"))

    def with_quiet_period(self, period: Duration) -> Self:
        """The same strategy for a source that may fall silent while its last windows are to fire all the same.

        After `period` without rows event time goes on by the clock: from then on, every `period`, the watermark is what
        it was behind the last rows and the time that has passed since. Rows that come later are late where they are
        older than that. It is measured in real time, for each subtask and each partition of a source that has some. One
        that never had a row knows no event time: it is idle after the period, or after the time of `with_idleness`.

        With both, a partition that has been silent for the idle timeout is left out while others of its subtask are
        active; if none is, event time goes on from the one that is furthest.

        Raises:
            DurationError: the time cannot be read, or is none.
        """
        return replace(self, quiet_period_ms=positive_duration_ms(period, "quiet period"))

    def with_watermark_alignment(self, group: str, max_drift: Duration, update_interval: Duration = "1s") -> Self:
        """The same strategy for a source that is not to run ahead of the other sources of its `group` in the job.

        While its watermark is more than `max_drift` ahead of the least of the group it reads no further batch: so what
        a join, or a function of two inputs, keeps of the faster one stays small. How far sources are, and may go, is
        told every `update_interval`, so they drift apart by what is read meanwhile as well. A source that is idle, or
        has read all that there is, holds nobody back; one that has not read a row yet is waited for. Take the interval
        shorter where sources read much in a second, longer where there are many subtasks. Batch jobs do not align.

        Raises:
            DurationError: a time cannot be read, or the interval is none.
            ProgramError: the group has no name, or the strategy has no watermarks.
        """
        if not isinstance(group, str) or not group:
            raise ProgramError(f"the sources of a group are aligned by its name, such as 'orders', not {group!r}")
        if self.delay_ms is None:
            raise ProgramError(
                "with_watermark_alignment(...) compares watermarks, and no_watermarks() has none: take"
                " for_bounded_out_of_orderness(...) or for_monotonous_timestamps()"
            )
        alignment = WatermarkAlignment(
            group=group,
            max_drift_ms=duration_ms(max_drift, "drift of aligned watermarks"),
            update_interval_ms=positive_duration_ms(update_interval, "update interval of aligned watermarks"),
        )
        return replace(self, alignment=alignment)


def checked_strategy(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """`strategy`. Raises `ProgramError` where it is none."""
    if not isinstance(strategy, WatermarkStrategy):
        raise ProgramError(
            "a watermark strategy is one such as WatermarkStrategy.for_bounded_out_of_orderness('10s'), not"
            f" {strategy!r}"
        )
    return strategy


def set_watermarks(made: Transformation, strategy: WatermarkStrategy) -> None:
    """Note on an operator how it makes watermarks."""
    made.watermark_delay_ms = strategy.delay_ms
    made.idle_timeout_ms = strategy.idle_timeout_ms
    made.quiet_period_ms = strategy.quiet_period_ms
    made.watermark_alignment = strategy.alignment
    made.on_monotony_violation = strategy.on_violation or MonotonyViolationHandler.IGNORE
    made.punctuated_watermarks = strategy.punctuation is not None


def watches_order(strategy: WatermarkStrategy) -> bool:
    """Tell whether a row that goes back in event time is to be told."""
    return strategy.on_violation not in (None, MonotonyViolationHandler.IGNORE)
