"""Watermarks: generated from event times, and combined over several channels.

The generators are Flink's: BoundedOutOfOrdernessWatermarks, AscendingTimestampsWatermarks with its handlers of
violations, punctuated watermarks, and no watermarks at all. They receive the earliest and the latest event time of each
batch of rows. A source with partitions has a generator for each partition, and its watermark is the minimum over the
partitions that are not idle, so that rows of a slow partition are not late. Idleness is measured for each partition, as
are the quiet periods after which its event time advances with the clock.

`TimestampsAndWatermarks` emits each advance once. From upstream watermarks it forwards only the end of event time. Its
watermark is part of a checkpoint; Flink forgets the watermark, and after a restart accepts late rows as on time. This
is the only module that generates watermarks from event times.

`WatermarkValve` decides which watermark a task may emit, given those of its channels (Flink's StatusWatermarkValve):
the minimum over the channels that are active and aligned. A channel that was idle is aligned again when it has caught
up with the last emitted watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Protocol

from flykka.messages.graph.job_graph import JobVertex, MonotonyViolationHandler
from flykka.messages.state.handles import PartitionWatermark, WatermarkState
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN, Watermark, WatermarkStatus
from flykka.messages.tasks.source import PartitionTime


@dataclass(slots=True)
class _ChannelStatus:
    watermark_ms: int = WATERMARK_MIN
    is_idle: bool = False
    is_aligned: bool = True


class WatermarkValve:
    """The combined watermark and idleness of `channels` channels.

    All channels begin active, with the watermark of the restored checkpoint, or without a watermark.
    """

    __slots__ = ("_active", "_channels", "_heap", "_max_ms", "is_idle", "watermark_ms")

    def __init__(self, channels: int, restored_ms: int = WATERMARK_MIN) -> None:
        self.watermark_ms = restored_ms
        self.is_idle = False
        self._channels = [_ChannelStatus(watermark_ms=restored_ms) for _ in range(channels)]
        self._active = channels
        # The maximum watermark of any channel. The watermarks of a channel only grow.
        self._max_ms = restored_ms
        # Candidates for the minimum. An entry is valid only while its channel is aligned and still has this
        # watermark.
        self._heap = [(restored_ms, channel) for channel in range(channels)]

    def on_watermark(self, channel: int, watermark: Watermark) -> list[Watermark | WatermarkStatus]:
        status = self._channels[channel]
        if status.is_idle or watermark.timestamp_ms <= status.watermark_ms:
            return []
        status.watermark_ms = watermark.timestamp_ms
        self._max_ms = max(self._max_ms, status.watermark_ms)
        if status.watermark_ms >= self.watermark_ms:
            self._align(channel)
        return self._advance(self._minimum())

    def on_status(self, channel: int, status: WatermarkStatus) -> list[Watermark | WatermarkStatus]:
        channel_status = self._channels[channel]
        if channel_status.is_idle == status.idle:
            return []
        channel_status.is_idle = status.idle
        return self._on_idle(channel_status) if status.idle else self._on_active(channel)

    def check(self) -> None:
        aligned = [channel for channel in self._channels if channel.is_aligned]
        assert not any(channel.is_idle for channel in aligned)
        assert all(channel.watermark_ms >= self.watermark_ms for channel in aligned)
        assert self._active == sum(not channel.is_idle for channel in self._channels)
        assert self.is_idle == (self._active == 0 and bool(self._channels))
        assert self._max_ms >= self.watermark_ms

    def _on_idle(self, channel: _ChannelStatus) -> list[Watermark | WatermarkStatus]:
        channel.is_aligned = False
        self._active -= 1
        held_back = channel.watermark_ms == self.watermark_ms
        if self._active:
            return self._advance(self._minimum()) if held_back else []
        # No active channel is left to wait for, so the maximum watermark of all channels is emitted.
        self.is_idle = True
        return [*(self._advance(self._max_ms) if held_back else []), WatermarkStatus(idle=True)]

    def _on_active(self, channel: int) -> list[Watermark | WatermarkStatus]:
        self._active += 1
        if self._channels[channel].watermark_ms >= self.watermark_ms:
            self._align(channel)
        was_idle, self.is_idle = self.is_idle, False
        return [WatermarkStatus(idle=False)] if was_idle else []

    def _align(self, channel: int) -> None:
        status = self._channels[channel]
        status.is_aligned = True
        heappush(self._heap, (status.watermark_ms, channel))
        if len(self._heap) > 2 * len(self._channels) + 16:
            # Stale entries of fast channels are dropped: they accumulate while a slow channel is at the top.
            self._heap = [entry for entry in set(self._heap) if self._is_current(entry)]
            heapify(self._heap)

    def _minimum(self) -> int | None:
        while self._heap and not self._is_current(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[int, int]) -> bool:
        watermark_ms, channel = entry
        status = self._channels[channel]
        return status.is_aligned and status.watermark_ms == watermark_ms

    def _advance(self, watermark_ms: int | None) -> list[Watermark | WatermarkStatus]:
        if watermark_ms is None or watermark_ms <= self.watermark_ms:
            return []
        self.watermark_ms = watermark_ms
        return [Watermark(timestamp_ms=watermark_ms)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonotonyViolated:
    """A row with an earlier event time followed a later one. This is logged or, if `is_fatal`, fails the task."""

    timestamp_ms: int
    latest_ms: int
    is_fatal: bool

    def __str__(self) -> str:
        return (
            f"event times must ascend, but a row with event time {self.timestamp_ms} ms came after one with"
            f" {self.latest_ms} ms; if rows may be out of order, use WatermarkStrategy.for_bounded_out_of_orderness"
        )


class WatermarkGenerator(Protocol):
    @property
    def watermark_ms(self) -> int:
        """The current watermark, which never goes back."""

    def on_batch(self, earliest_ms: int, latest_ms: int) -> MonotonyViolated | None:
        """Record that rows with event times from `earliest_ms` to `latest_ms` were read."""

    def restore(self, watermark_ms: int) -> None: ...


class BoundedOutOfOrdernessWatermarks:
    """Assumes that a row is at most `delay_ms` older than the latest row before it."""

    __slots__ = ("_behind_ms", "watermark_ms")

    def __init__(self, delay_ms: int) -> None:
        if delay_ms < 0:
            raise ValueError(f"the delay of a watermark cannot be negative: {delay_ms} ms")
        self._behind_ms = delay_ms + 1
        self.watermark_ms = WATERMARK_MIN

    def on_batch(self, earliest_ms: int, latest_ms: int) -> None:
        """Record that rows up to `latest_ms` were read. The result does not underflow at the minimum event time."""
        self.watermark_ms = max(self.watermark_ms, latest_ms - self._behind_ms)

    def restore(self, watermark_ms: int) -> None:
        self.watermark_ms = watermark_ms


class AscendingTimestampsWatermarks:
    """Assumes that event times never go back from batch to batch. The handler decides what happens on a violation."""

    __slots__ = ("_latest_ms", "_on_violation")

    def __init__(self, on_violation: MonotonyViolationHandler) -> None:
        self._on_violation = on_violation
        self._latest_ms = WATERMARK_MIN

    @property
    def watermark_ms(self) -> int:
        """The latest event time minus one millisecond, because that event time may occur again."""
        return max(self._latest_ms - 1, WATERMARK_MIN)

    def on_batch(self, earliest_ms: int, latest_ms: int) -> MonotonyViolated | None:
        before_ms, self._latest_ms = self._latest_ms, max(self._latest_ms, latest_ms)
        if earliest_ms >= before_ms or self._on_violation is MonotonyViolationHandler.IGNORE:
            return None
        is_fatal = self._on_violation is MonotonyViolationHandler.FAIL
        return MonotonyViolated(timestamp_ms=earliest_ms, latest_ms=before_ms, is_fatal=is_fatal)

    def restore(self, watermark_ms: int) -> None:
        self._latest_ms = watermark_ms + 1


class PunctuatedWatermarks:
    """The watermark is the latest event time of the rows that carry a watermark. Batches report only those times."""

    __slots__ = ("watermark_ms",)

    def __init__(self) -> None:
        self.watermark_ms = WATERMARK_MIN

    def on_batch(self, earliest_ms: int, latest_ms: int) -> None:
        self.watermark_ms = max(self.watermark_ms, latest_ms)

    def restore(self, watermark_ms: int) -> None:
        self.watermark_ms = watermark_ms


class NoWatermarks:
    __slots__ = ()

    watermark_ms = WATERMARK_MIN

    def on_batch(self, earliest_ms: int, latest_ms: int) -> None: ...

    def restore(self, watermark_ms: int) -> None: ...


def watermark_generator(vertex: JobVertex) -> WatermarkGenerator:
    if vertex.watermark_delay_ms is None:
        return NoWatermarks()
    if vertex.punctuated_watermarks:
        return PunctuatedWatermarks()
    if vertex.on_monotony_violation is not MonotonyViolationHandler.IGNORE:
        return AscendingTimestampsWatermarks(vertex.on_monotony_violation)
    return BoundedOutOfOrdernessWatermarks(vertex.watermark_delay_ms)


@dataclass(slots=True)
class _Partition:
    generator: WatermarkGenerator
    last_read_ms: int

    @property
    def has_event_time(self) -> bool:
        return self.generator.watermark_ms > WATERMARK_MIN


_WHOLE = ""
"""The name of the only partition of a source without partitions."""


class TimestampsAndWatermarks:
    """Emits the watermark of its generators whenever it has grown (Flink's operator of this name).

    Each partition of a source has a generator (Flink's WatermarkOutputMultiplexer), which `make` creates when the
    partition first appears; a source without partitions has a single generator. A partition that delivered nothing for
    `idle_timeout_ms` is idle and does not hold the others back. The event time of a partition that delivered nothing
    for `quiet_period_ms` advances with the clock, from the watermark of its last rows. A partition without any row has
    no event time to advance, so it becomes idle instead, after the idle timeout if one is set. If all partitions are
    idle, the one with the latest event time determines the watermark.
    """

    __slots__ = ("_idle_timeout_ms", "_make", "_partitions", "_quiet_period_ms", "_watermark_ms", "said_ms")

    def __init__(
        self,
        make: Callable[[], WatermarkGenerator],
        idle_timeout_ms: int | None = None,
        quiet_period_ms: int | None = None,
    ) -> None:
        self._make = make
        self._idle_timeout_ms = idle_timeout_ms
        self._quiet_period_ms = quiet_period_ms
        self._partitions = {_WHOLE: _Partition(make(), 0)}
        self._watermark_ms = WATERMARK_MIN
        self.said_ms = WATERMARK_MIN

    def restore(self, restored: WatermarkState) -> None:
        """Continue from the watermarks of a checkpoint: rows that were late then are still late."""
        self._watermark_ms = self.said_ms = restored.watermark_ms
        watermarks = {each.partition: each.watermark_ms for each in restored.partitions}
        self._partitions = {name: _Partition(self._make(), 0) for name in watermarks or (_WHOLE,)}
        for name, partition in self._partitions.items():
            partition.generator.restore(watermarks.get(name, restored.watermark_ms))

    @property
    def state(self) -> WatermarkState:
        partitions = tuple(
            PartitionWatermark(partition=name, watermark_ms=partition.generator.watermark_ms)
            for name, partition in self._partitions.items()
            if name != _WHOLE and partition.has_event_time
        )
        return WatermarkState(watermark_ms=self.said_ms, partitions=partitions)

    def start(self, now: int) -> None:
        for partition in self._partitions.values():
            partition.last_read_ms = now

    def on_read(self, now: int) -> None:
        """Record that the source was read. `on_partitions` reports later from which partitions."""
        if (whole := self._partitions.get(_WHOLE)) is not None:
            whole.last_read_ms = now

    def on_batch(self, earliest_ms: int, latest_ms: int) -> MonotonyViolated | None:
        generator = self._partitions[_WHOLE].generator
        violated = generator.on_batch(earliest_ms, latest_ms)
        self._watermark_ms = max(self._watermark_ms, generator.watermark_ms)
        return violated

    def on_partitions(self, times: Iterable[PartitionTime], now: int) -> MonotonyViolated | None:
        """Record a batch with the event times of the partitions that it covers, which may have no rows."""
        self._partitions.pop(_WHOLE, None)
        violated: MonotonyViolated | None = None
        for time in times:
            partition = self._partitions.get(time.partition)
            if partition is None:
                partition = self._partitions[time.partition] = _Partition(self._make(), now)
            if time.latest_ms is not None:
                earliest_ms = time.latest_ms if time.earliest_ms is None else time.earliest_ms
                violated = violated or partition.generator.on_batch(earliest_ms, time.latest_ms)
                partition.last_read_ms = now
        self._advance(now)
        return violated

    def emit(self) -> Watermark | None:
        return self._advance_to(self._watermark_ms)

    def on_time(self, now: int) -> Watermark | None:
        """Return the watermark, if it has grown because partitions were idle or quiet."""
        self._advance(now)
        return self.emit()

    def on_watermark(self, watermark: Watermark) -> Watermark | None:
        return self._advance_to(WATERMARK_MAX) if watermark.timestamp_ms == WATERMARK_MAX else None

    def is_idle(self, now: int) -> bool:
        partitions = self._partitions.values()
        advances = self._quiet_period_ms is not None and any(each.has_event_time for each in partitions)
        return not advances and all(self._is_silent(each, now) for each in partitions)

    def next_change_ms(self, now: int) -> int | None:
        """Return the milliseconds until idleness has its next effect, or `None` if it has no further effect."""
        quiet_ms, changes = self._quiet_period_ms, []
        for partition in self._partitions.values():
            silent_ms, idle_after_ms = now - partition.last_read_ms, self._idle_after_ms(partition)
            if idle_after_ms is not None and silent_ms < idle_after_ms:
                changes.append(idle_after_ms - silent_ms)
            if quiet_ms is not None and partition.has_event_time:
                changes.append(quiet_ms - silent_ms if silent_ms < quiet_ms else quiet_ms)
        return min(changes, default=None)

    def held_back_by(self, now: int) -> tuple[str, int, int] | None:
        active = [
            (self._time(each, now), name) for name, each in self._partitions.items() if not self._is_silent(each, now)
        ]
        if not active:
            return None
        watermark_ms, name = min(active)
        return name, watermark_ms, now - self._partitions[name].last_read_ms

    def _advance(self, now: int) -> None:
        partitions = self._partitions.values()
        active = [self._time(each, now) for each in partitions if not self._is_silent(each, now)]
        if active:
            self._watermark_ms = max(self._watermark_ms, min(active))
        elif self._quiet_period_ms is not None:
            self._watermark_ms = max(self._watermark_ms, *(self._time(each, now) for each in partitions))

    def _advance_to(self, watermark_ms: int) -> Watermark | None:
        if watermark_ms <= self.said_ms:
            return None
        self.said_ms = watermark_ms
        return Watermark(timestamp_ms=watermark_ms)

    def _time(self, partition: _Partition, now: int) -> int:
        """Return the watermark of a partition. After the quiet period it advances with the clock."""
        watermark_ms, silent_ms = partition.generator.watermark_ms, now - partition.last_read_ms
        is_quiet = self._quiet_period_ms is not None and silent_ms >= self._quiet_period_ms
        return watermark_ms + silent_ms if is_quiet and partition.has_event_time else watermark_ms

    def _is_silent(self, partition: _Partition, now: int) -> bool:
        after_ms = self._idle_after_ms(partition)
        return after_ms is not None and now - partition.last_read_ms >= after_ms

    def _idle_after_ms(self, partition: _Partition) -> int | None:
        if self._idle_timeout_ms is not None or partition.has_event_time:
            return self._idle_timeout_ms
        return self._quiet_period_ms
