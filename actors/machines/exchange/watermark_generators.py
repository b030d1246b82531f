"""Generates watermarks from the event times that were read, behind a source or wherever else they are assigned.

The generators are Flink's: BoundedOutOfOrdernessWatermarks, AscendingTimestampsWatermarks with its handlers of
violations, punctuated ones, and none. They are told of rows in batches, by the earliest and the latest event time of
one; a row alone is a batch of one. A source with partitions has a generator for each, and its watermark is the least
of those that are not idle (Flink's WatermarkOutputMultiplexer): what one partition is behind is not late.
`TimestampsAndWatermarksOperator` says what has grown, and lets nothing pass from before it but the end of event time.
This is the only place where a watermark is made of event times.

Not here: where event times come from, and what the watermarks of several channels mean together (`watermarks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from flykka.messages.graph.job_graph import JobVertex, MonotonyViolationHandler
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN, Watermark
from flykka.messages.tasks.source import PartitionTime


@dataclass(frozen=True, slots=True, kw_only=True)
class MonotonyViolated:
    """A row with an earlier event time came behind a later one. It is to be logged or, if `is_fatal`, to fail."""

    timestamp_ms: int
    latest_ms: int
    is_fatal: bool

    def __str__(self) -> str:
        return (
            f"event times are to ascend, but a row with event time {self.timestamp_ms} ms came behind one with"
            f" {self.latest_ms} ms; where rows may come out of order, take"
            " WatermarkStrategy.for_bounded_out_of_orderness"
        )


class WatermarkGenerator(Protocol):
    """Learns event times; knows how far event time has come by them."""

    @property
    def watermark_ms(self) -> int:
        """The watermark now. It never goes back."""

    def on_batch(self, earliest_ms: int, latest_ms: int) -> MonotonyViolated | None:
        """Rows with event times from `earliest_ms` to `latest_ms` were read."""


class BoundedOutOfOrdernessWatermarks:
    """Rows come at most `delay_ms` later than the latest row before them."""

    __slots__ = ("_behind_ms", "watermark_ms")

    def __init__(self, delay_ms: int) -> None:
        if delay_ms < 0:
            raise ValueError(f"the delay of a watermark cannot be negative: {delay_ms} ms")
        self._behind_ms = delay_ms + 1
        self.watermark_ms = WATERMARK_MIN

    def on_batch(self, earliest_ms: int, latest_ms: int) -> None:
        """Rows up to `latest_ms` were read. Nothing wraps around at the beginning of time."""
        self.watermark_ms = max(self.watermark_ms, latest_ms - self._behind_ms)


class AscendingTimestampsWatermarks:
    """Event times never go back from batch to batch; what is done where they do is said by the handler."""

    __slots__ = ("_latest_ms", "_on_violation")

    def __init__(self, on_violation: MonotonyViolationHandler) -> None:
        self._on_violation = on_violation
        self._latest_ms = WATERMARK_MIN

    @property
    def watermark_ms(self) -> int:
        """A millisecond below the latest event time, which may come again."""
        return max(self._latest_ms - 1, WATERMARK_MIN)

    def on_batch(self, earliest_ms: int, latest_ms: int) -> MonotonyViolated | None:
        """Rows were read; the first violation, where it is to be told."""
        before_ms, self._latest_ms = self._latest_ms, max(self._latest_ms, latest_ms)
        if earliest_ms >= before_ms or self._on_violation is MonotonyViolationHandler.IGNORE:
            return None
        is_fatal = self._on_violation is MonotonyViolationHandler.FAIL
        return MonotonyViolated(timestamp_ms=earliest_ms, latest_ms=before_ms, is_fatal=is_fatal)


class PunctuatedWatermarks:
    """The batches are those of rows that mark a watermark: their own event time."""

    __slots__ = ("watermark_ms",)

    def __init__(self) -> None:
        self.watermark_ms = WATERMARK_MIN

    def on_batch(self, earliest_ms: int, latest_ms: int) -> None:
        """Rows that mark a watermark were read."""
        self.watermark_ms = max(self.watermark_ms, latest_ms)


class NoWatermarks:
    """There is no event time."""

    __slots__ = ()

    watermark_ms = WATERMARK_MIN

    def on_batch(self, earliest_ms: int, latest_ms: int) -> None:
        """Event times say nothing here."""


def watermark_generator(vertex: JobVertex) -> WatermarkGenerator:
    """The generator that a vertex asks for."""
    if vertex.watermark_delay_ms is None:
        return NoWatermarks()
    if vertex.punctuated_watermarks:
        return PunctuatedWatermarks()
    if vertex.on_monotony_violation is not MonotonyViolationHandler.IGNORE:
        return AscendingTimestampsWatermarks(vertex.on_monotony_violation)
    return BoundedOutOfOrdernessWatermarks(vertex.watermark_delay_ms)


class WatermarkOutputMultiplexer:
    """The generators of the partitions of one source, each made when the partition is first heard of.

    A partition of which nothing was read for `idle_timeout_ms` (None: never) is idle and holds nobody back.
    """

    __slots__ = ("_generators", "_idle_timeout_ms", "_last_read_ms", "_make", "watermark_ms")

    def __init__(self, make: Callable[[], WatermarkGenerator], idle_timeout_ms: int | None) -> None:
        self._make = make
        self._idle_timeout_ms = idle_timeout_ms
        self._generators: dict[str, WatermarkGenerator] = {}
        self._last_read_ms: dict[str, int] = {}
        self.watermark_ms = WATERMARK_MIN

    def on_partitions(self, times: Iterable[PartitionTime], now: int) -> MonotonyViolated | None:
        """A batch was read, with something of these partitions or nothing."""
        violated: MonotonyViolated | None = None
        for time in times:
            generator = self._generators.get(time.partition)
            if generator is None:
                generator = self._generators[time.partition] = self._make()
                self._last_read_ms[time.partition] = now
            if time.latest_ms is not None:
                earliest_ms = time.latest_ms if time.earliest_ms is None else time.earliest_ms
                violated = violated or generator.on_batch(earliest_ms, time.latest_ms)
                self._last_read_ms[time.partition] = now
        active = [
            each.watermark_ms for partition, each in self._generators.items() if not self._is_idle(partition, now)
        ]
        self.watermark_ms = max(self.watermark_ms, min(active, default=WATERMARK_MIN))
        return violated

    def _is_idle(self, partition: str, now: int) -> bool:
        timeout_ms = self._idle_timeout_ms
        return timeout_ms is not None and now - self._last_read_ms[partition] >= timeout_ms


class TimestampsAndWatermarksOperator:
    """Says each watermark of its generator once, as far as it has grown (Flink's operator of this name)."""

    __slots__ = ("_generator", "_partitions", "said_ms")

    def __init__(self, make: Callable[[], WatermarkGenerator], idle_timeout_ms: int | None = None) -> None:
        """`make` makes a generator, one for each partition where there are some."""
        self._generator = make()
        self._partitions = WatermarkOutputMultiplexer(make, idle_timeout_ms)
        self.said_ms = WATERMARK_MIN
        """The watermark that was said last."""

    def on_batch(self, earliest_ms: int, latest_ms: int) -> MonotonyViolated | None:
        """Rows were read; nothing is said of it before `emit`."""
        return self._generator.on_batch(earliest_ms, latest_ms)

    def on_partitions(self, times: Iterable[PartitionTime], now: int) -> MonotonyViolated | None:
        """Rows of a partitioned source were read."""
        return self._partitions.on_partitions(times, now)

    @property
    def has_event_time(self) -> bool:
        """The rows so far have a watermark."""
        return self._watermark_ms > WATERMARK_MIN

    def emit(self, quiet_ms: int = 0) -> Watermark | None:
        """The watermark, where it has grown since the last one; it is asked for behind each batch.

        For `quiet_ms` nothing was read, and event time is to have gone on by as much, where it is known.
        """
        return self._say(self._watermark_ms + quiet_ms) if self.has_event_time else None

    def on_watermark(self, watermark: Watermark) -> Watermark | None:
        """A watermark from before this operator: only the end of event time is one for those behind it, too."""
        return self._say(WATERMARK_MAX) if watermark.timestamp_ms == WATERMARK_MAX else None

    @property
    def _watermark_ms(self) -> int:
        # A source either has partitions or not: the other of the two has heard of nothing.
        return max(self._generator.watermark_ms, self._partitions.watermark_ms)

    def _say(self, watermark_ms: int) -> Watermark | None:
        if watermark_ms <= self.said_ms:
            return None
        self.said_ms = watermark_ms
        return Watermark(timestamp_ms=watermark_ms)
