"""Every subtask reads the correct subtasks of its producer, at any two parallelisms."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.job_graph.wiring import channels, pointwise_consumers, pointwise_producers, subpartitions
from flykka.messages.graph.job_graph import ShipStrategy

parallelisms = st.integers(1, 60)


@pytest.mark.slow
@given(upstream=parallelisms, downstream=parallelisms)
def test_pointwise_channels_are_equal_from_both_ends(upstream: int, downstream: int) -> None:
    reads = [list(pointwise_producers(upstream, downstream, consumer)) for consumer in range(downstream)]

    for producer in range(upstream):
        readers = [consumer for consumer in range(downstream) if producer in reads[consumer]]
        assert list(pointwise_consumers(upstream, downstream, producer)) == readers


@pytest.mark.slow
@given(upstream=parallelisms, downstream=parallelisms)
def test_pointwise_wiring_covers_all_subtasks_evenly(upstream: int, downstream: int) -> None:
    reads = [len(pointwise_producers(upstream, downstream, consumer)) for consumer in range(downstream)]
    readers = [len(pointwise_consumers(upstream, downstream, producer)) for producer in range(upstream)]

    assert max(reads) - min(reads) <= 1
    assert max(readers) - min(readers) <= 1
    assert sum(reads) == sum(readers) == max(upstream, downstream)


@pytest.mark.slow
@given(upstream=parallelisms, downstream=parallelisms, ship_strategy=st.sampled_from(ShipStrategy))
def test_every_subpartition_is_read_by_exactly_one_channel(
    upstream: int, downstream: int, ship_strategy: ShipStrategy
) -> None:
    read = Counter(
        channel for consumer in range(downstream) for channel in channels(ship_strategy, upstream, downstream, consumer)
    )

    assert set(read.values()) == {1}
    for producer in range(upstream):
        its_own = sorted(channel.subpartition for channel in read if channel.producer == producer)
        assert its_own == list(range(subpartitions(ship_strategy, upstream, downstream, producer)))


@pytest.mark.parametrize("ship_strategy", [ShipStrategy.HASH, ShipStrategy.REBALANCE, ShipStrategy.BROADCAST])
def test_all_edges_except_forward_connect_all_to_all(ship_strategy: ShipStrategy) -> None:
    read = [[channel.producer for channel in channels(ship_strategy, 3, 2, consumer)] for consumer in range(2)]

    assert read == [[0, 1, 2], [0, 1, 2]]


def test_a_pointwise_reader_reads_its_producers_in_order() -> None:
    assert [list(pointwise_producers(10, 6, consumer)) for consumer in range(6)] == [
        [0],
        [1, 2],
        [3, 4],
        [5],
        [6, 7],
        [8, 9],
    ]
