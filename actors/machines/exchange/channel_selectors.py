"""Functions that select the channels of an output's next batch (Flink's ChannelSelector and its StreamPartitioners).

Keyed output has no selector: its rows are divided among all channels, by `state.key_groups`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import assert_never

from flykka.messages.graph.job_graph import ShipStrategy

ChannelSelector = Callable[[], range]


def channel_selector(
    ship_strategy: ShipStrategy, channels: int, *, first: int, draw: Callable[[int], int]
) -> ChannelSelector:
    """Return the selector of an output. A rebalance begins at channel `first`. `draw(n)` is random, from 0 to n - 1."""
    assert channels > 0, "the output has no reader"
    match ship_strategy:
        case ShipStrategy.FORWARD | ShipStrategy.GLOBAL:
            return lambda: range(1)
        case ShipStrategy.REBALANCE:
            # If many producers all began with the same reader, they would overload it.
            return _in_turn(channels, first)
        case ShipStrategy.RESCALE:
            return _in_turn(channels, 0)
        case ShipStrategy.SHUFFLE:
            return lambda: _only(draw(channels))
        case ShipStrategy.BROADCAST:
            return lambda: range(channels)
        case ShipStrategy.HASH:
            assert channels == 1, (
                "a HASH output must have one channel: its batches are split by key group when they are sent"
            )
            return lambda: range(1)
        case _:
            assert_never(ship_strategy)


def _in_turn(channels: int, first: int) -> ChannelSelector:
    turns = count(first)
    return lambda: _only(next(turns) % channels)


def _only(channel: int) -> range:
    return range(channel, channel + 1)
