"""WatermarkStrategy: the event-time column, and the generation of watermarks from it, with Flink's names."""

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
    """Defines how watermarks are generated; use the class methods to create a strategy.

    `delay_ms` is the maximum out-of-orderness, None without event time. `timestamp_column` names the event-time column
    unless the source does. A source without rows for `idle_timeout_ms` is idle and does not hold back other sources;
    None: never. With `quiet_period_ms`, the watermark advances by the clock while there are no rows. With
    `punctuation`, only the rows for which it is true advance the watermark. With `alignment`, a source waits for slower
    sources.
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
        """Create a strategy for rows that arrive at most `delay` after a row with a later event time; others are late.

        Raises:
            DurationError: the delay cannot be parsed.
        """
        return cls(delay_ms=duration_ms(delay, "watermark delay"))

    @classmethod
    def for_monotonous_timestamps(cls) -> Self:
        """Create a strategy for rows that arrive in the order of their event time; other rows are late."""
        return cls(delay_ms=0, on_violation=MonotonyViolationHandler.IGNORE)

    @classmethod
    def for_punctuated_watermarks(cls, condition: Column | str) -> Self:
        """Create a strategy in which rows for which `condition` is true advance the watermark to their event time.

        A batch advances the watermark, after its rows, to the latest of these event times (Flink's
        AssignerWithPunctuatedWatermarks).
        """
        return cls(delay_ms=0, punctuation=condition)

    @classmethod
    def no_watermarks(cls) -> Self:
        """Create a strategy without event time; event-time windows are then impossible."""
        return cls(delay_ms=None)

    def with_violation_handler(self, handler: MonotonyViolationHandler | str) -> Self:
        """Set the reaction to a row that is older than the batches before it: IGNORE (the default), LOG or FAIL.

        Only available for `for_monotonous_timestamps`. Rows within a batch have no order.

        Raises:
            ProgramError: there is no such handler, or the strategy does not require an order.
        """
        if self.on_violation is None:
            raise ProgramError("only for_monotonous_timestamps() asks for an order that can be violated")
        chosen = one_of(MonotonyViolationHandler, handler, "handler of violations")
        return replace(self, on_violation=chosen)

    def with_timestamp_column(self, column: str) -> Self:
        """Return this strategy with another timestamp column (Flink's withTimestampAssigner)."""
        return replace(self, timestamp_column=column)

    def with_idleness(self, idle_timeout: Duration) -> Self:
        """Return this strategy with an idle timeout: a source without rows for that time does not hold back others.

        The timeout is measured in real time, for each subtask and each partition of a source, even before its first
        row. The next row makes the source active again. Time in which rows are queued does not count.

        Raises:
            DurationError: the time cannot be parsed, or is 0.
        """
        return replace(self, idle_timeout_ms=positive_duration_ms(idle_timeout, "idle timeout"))

    def with_quiet_period(self, period: Duration) -> Self:
        """Return this strategy with a quiet period, so that the last windows fire even if a source has no more rows.

        After `period` without rows the watermark advances by the clock: once per `period`, it is set to the last
        watermark plus the time that has passed since. Later rows that are older than the watermark are late. The period
        is measured in real time, for each subtask and each partition of a source. A partition that never had a row has
        no event time, so it becomes idle after the period, or after the timeout of `with_idleness`. With both settings,
        a partition without rows for the idle timeout is ignored while other partitions of its subtask are active. If
        all partitions are idle, the watermark advances from the highest watermark of a partition.

        Raises:
            DurationError: the time cannot be parsed, or is 0.
        """
        return replace(self, quiet_period_ms=positive_duration_ms(period, "quiet period"))

    def with_watermark_alignment(self, group: str, max_drift: Duration, update_interval: Duration = "1s") -> Self:
        """Return this strategy with an alignment: the source does not run ahead of others in its `group` in the job.

        While its watermark is more than `max_drift` ahead of the minimum of the group, the source reads no further
        batch. That keeps the state of a join, or of a function with two inputs, small. Watermarks are reported and
        limits updated every `update_interval`, so sources can drift further apart by the rows read meanwhile. A source
        that is idle or finished does not hold back others, but a source that has not read a row yet does. Choose a
        shorter interval if sources read many rows per second, a longer interval if there are many subtasks. Batch jobs
        ignore the alignment.

        Raises:
            DurationError: a time cannot be parsed, or the interval is 0.
            ProgramError: the group has no name, or the strategy has no watermarks.
        """
        if not isinstance(group, str) or not group:
            raise ProgramError(f"the group of aligned sources must be a name such as 'orders', not {group!r}")
        if self.delay_ms is None:
            raise ProgramError(
                "with_watermark_alignment(...) compares watermarks, but no_watermarks() has none: use"
                " for_bounded_out_of_orderness(...) or for_monotonous_timestamps()"
            )
        alignment = WatermarkAlignment(
            group=group,
            max_drift_ms=duration_ms(max_drift, "drift of aligned watermarks"),
            update_interval_ms=positive_duration_ms(update_interval, "update interval of aligned watermarks"),
        )
        return replace(self, alignment=alignment)


def checked_strategy(strategy: WatermarkStrategy) -> WatermarkStrategy:
    if not isinstance(strategy, WatermarkStrategy):
        raise ProgramError(
            "a watermark strategy is one such as WatermarkStrategy.for_bounded_out_of_orderness('10s'), not"
            f" {strategy!r}"
        )
    return strategy


def set_watermarks(operator: Transformation, strategy: WatermarkStrategy) -> None:
    operator.watermark_delay_ms = strategy.delay_ms
    operator.idle_timeout_ms = strategy.idle_timeout_ms
    operator.quiet_period_ms = strategy.quiet_period_ms
    operator.watermark_alignment = strategy.alignment
    operator.on_monotony_violation = strategy.on_violation or MonotonyViolationHandler.IGNORE
    operator.punctuated_watermarks = strategy.punctuation is not None


def watches_order(strategy: WatermarkStrategy) -> bool:
    """Return True if rows that are out of order must be reported."""
    return strategy.on_violation not in (None, MonotonyViolationHandler.IGNORE)
