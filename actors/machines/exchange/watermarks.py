"""The progress of event time at a task's inputs.

`WatermarkValve` decides what a task may say from what its channels say (Flink's StatusWatermarkValve): the minimum
over the channels that are active and aligned. A channel that was idle is aligned again when it has caught up with what
was said last. What a source may say is decided in `watermark_generators`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from flykka.messages.tasks.exchange import WATERMARK_MIN, Watermark, WatermarkStatus


@dataclass(slots=True)
class _ChannelStatus:
    watermark_ms: int = WATERMARK_MIN
    is_idle: bool = False
    is_aligned: bool = True


class WatermarkValve:
    """The watermark and the idleness of `channels` channels together.

    All begin active, without a watermark or with the one that a checkpoint has of all of them.
    """

    __slots__ = ("_active", "_channels", "_heap", "_max_ms", "is_idle", "watermark_ms")

    def __init__(self, channels: int, restored_ms: int = WATERMARK_MIN) -> None:
        self.watermark_ms = restored_ms
        self.is_idle = False
        self._channels = [_ChannelStatus(watermark_ms=restored_ms) for _ in range(channels)]
        self._active = channels
        # The greatest watermark of any channel: watermarks of a channel only grow.
        self._max_ms = restored_ms
        # Candidates for the minimum; an entry counts only while its channel is aligned and still has that watermark.
        self._heap = [(restored_ms, channel) for channel in range(channels)]

    def on_watermark(self, channel: int, watermark: Watermark) -> list[Watermark | WatermarkStatus]:
        """A channel says how far it is; what the task may now say."""
        status = self._channels[channel]
        if status.is_idle or watermark.timestamp_ms <= status.watermark_ms:
            return []
        status.watermark_ms = watermark.timestamp_ms
        self._max_ms = max(self._max_ms, status.watermark_ms)
        if status.watermark_ms >= self.watermark_ms:
            self._align(channel)
        return self._advance(self._minimum())

    def on_status(self, channel: int, status: WatermarkStatus) -> list[Watermark | WatermarkStatus]:
        """A channel becomes idle or active; what the task may now say."""
        known = self._channels[channel]
        if known.is_idle == status.idle:
            return []
        known.is_idle = status.idle
        return self._on_idle(known) if status.idle else self._on_active(channel)

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
        # Nobody is left who could be behind: say the most that any channel has said.
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
            # Entries that a fast channel has left behind a slow one.
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
