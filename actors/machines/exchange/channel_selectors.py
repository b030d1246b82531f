"""To which channel the next batch of an output goes (Flink's ChannelSelector and its StreamPartitioners).

What is partitioned by key has no selector: its rows are split among all channels, by `state.key_groups`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import assert_never

from flykka.messages.graph.job_graph import ShipStrategy


class ChannelSelector(ABC):
    """Chooses among the channels 0 to `channels` - 1."""

    def __init__(self, channels: int) -> None:
        assert channels > 0, "an output without a reader"
        self._channels = channels

    def select_channels(self) -> range:
        channel = self.select_channel()
        return range(channel, channel + 1)

    @abstractmethod
    def select_channel(self) -> int:
        """The channel that the next batch goes to."""


class ForwardPartitioner(ChannelSelector):
    """To the one reader there is."""

    def select_channel(self) -> int:
        return 0


class GlobalPartitioner(ChannelSelector):
    """To the first subtask of the reader."""

    def select_channel(self) -> int:
        return 0


class RebalancePartitioner(ChannelSelector):
    """In turn, from any channel on: many producers had better not all begin with the same reader."""

    def __init__(self, channels: int, first: int) -> None:
        super().__init__(channels)
        self._next = first % channels

    def select_channel(self) -> int:
        channel, self._next = self._next, (self._next + 1) % self._channels
        return channel


class RescalePartitioner(RebalancePartitioner):
    """In turn among the few readers of this producer, from the first on."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, first=0)


class ShufflePartitioner(ChannelSelector):
    """To any reader: `draw(n)` is a random number from 0 to n - 1."""

    def __init__(self, channels: int, draw: Callable[[int], int]) -> None:
        super().__init__(channels)
        self._draw = draw

    def select_channel(self) -> int:
        return self._draw(self._channels)


class BroadcastPartitioner(ChannelSelector):
    """To every reader."""

    def select_channels(self) -> range:
        return range(self._channels)

    def select_channel(self) -> int:
        raise TypeError("a broadcast goes to all channels, and to no single one")


def channel_selector(
    ship_strategy: ShipStrategy, channels: int, *, first: int, draw: Callable[[int], int]
) -> ChannelSelector:
    """The selector of one output. `first` is where a rebalance begins, `draw` the chance of a shuffle."""
    match ship_strategy:
        case ShipStrategy.FORWARD:
            return ForwardPartitioner(channels)
        case ShipStrategy.REBALANCE:
            return RebalancePartitioner(channels, first)
        case ShipStrategy.RESCALE:
            return RescalePartitioner(channels)
        case ShipStrategy.SHUFFLE:
            return ShufflePartitioner(channels, draw)
        case ShipStrategy.GLOBAL:
            return GlobalPartitioner(channels)
        case ShipStrategy.BROADCAST:
            return BroadcastPartitioner(channels)
        case ShipStrategy.HASH:
            assert channels == 1, "a batch is split by key group before it is sent"
            return ForwardPartitioner(channels)
        case _:
            assert_never(ship_strategy)
