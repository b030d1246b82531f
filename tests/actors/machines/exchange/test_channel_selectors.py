"""Every partitioner selects the target of the next batch."""

from __future__ import annotations

from flykka.actors.machines.exchange.channel_selectors import channel_selector
from flykka.messages.graph.job_graph import ShipStrategy


def selected(ship_strategy: ShipStrategy, batches: int, channels: int = 3, first: int = 0) -> list[list[int]]:
    selector = channel_selector(ship_strategy, channels, first=first, draw=lambda count: count - 1)
    return [list(selector()) for _ in range(batches)]


def test_a_rebalance_is_round_robin_from_the_initial_channel() -> None:
    assert selected(ShipStrategy.REBALANCE, 4, first=5) == [[2], [0], [1], [2]]


def test_a_shuffle_picks_a_random_channel() -> None:
    assert selected(ShipStrategy.SHUFFLE, 2) == [[2], [2]]


def test_a_broadcast_is_sent_to_all_subtasks() -> None:
    assert selected(ShipStrategy.BROADCAST, 2) == [[0, 1, 2], [0, 1, 2]]


def test_a_keyed_batch_for_a_single_reader_is_not_split() -> None:
    assert selected(ShipStrategy.HASH, 1, channels=1) == [[0]]
