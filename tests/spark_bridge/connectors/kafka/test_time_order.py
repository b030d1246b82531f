"""Tests that a backlog is read in portions of the earliest records of all partitions, whatever they contain."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, TopicPartition
from flykka.spark_bridge.connectors.kafka.source import TimeOrder

NOW_MS = 1_700_000_000_000


class Log:
    def __init__(self, *partitions: Sequence[int]) -> None:
        self.partitions = partitions
        self.questions = 0

    def first_offsets(self, ranges: Sequence[OffsetRange], time_ms: int) -> dict[TopicPartition, int]:
        self.questions += 1
        return {each.at: bisect_left(self.partitions[each.at.partition], time_ms) for each in ranges}

    def portions(self, limit: int) -> Iterator[list[int]]:
        order = TimeOrder(self.first_offsets)
        pending = [
            OffsetRange(at=TopicPartition("topic", number), start=0, end=len(times))
            for number, times in enumerate(self.partitions)
        ]
        while any(each.offsets for each in pending):
            taken = order.chunk(pending, limit)
            assert any(each.offsets for each in taken)
            yield [time for each in taken for time in self.partitions[each.at.partition][each.start : each.end]]
            pending = [replace(left, start=each.end) for left, each in zip(pending, taken, strict=True)]


def test_a_lagging_partition_is_read_first() -> None:
    day = 86_400_000
    log = Log(range(NOW_MS - day, NOW_MS, day // 1_000), range(NOW_MS - 1_000, NOW_MS))

    portions = list(log.portions(100))

    assert sum(map(len, portions)) == 2_000
    assert all(max(one) <= min(other) for one, other in pairwise(portions))
    assert all(len(portion) >= 50 for portion in portions[:-1])
    assert log.questions < 8 * len(portions) + 60


times = st.lists(st.integers(NOW_MS, NOW_MS + 1_000), max_size=60).map(sorted)


@given(st.lists(times, min_size=1, max_size=4), st.integers(1, 40))
def test_each_record_belongs_to_exactly_one_portion_and_offset_order_is_kept(
    partitions: list[list[int]], limit: int
) -> None:
    portions = list(Log(*partitions).portions(limit))

    read = [time for portion in portions for time in portion]
    assert sorted(read) == sorted(time for partition in partitions for time in partition)
    # Among records of equal time each partition contributes its share, rounded up.
    assert all(len(portion) <= limit + len(partitions) for portion in portions)
    assert all(max(one) <= min(other) for one, other in pairwise(portions))


@pytest.mark.parametrize("late_ms", [0, NOW_MS - 5_000])
def test_out_of_order_records_may_be_read_later(late_ms: int) -> None:
    log = Log(range(NOW_MS, NOW_MS + 20), [late_ms] * 20)
    order = TimeOrder(log.first_offsets)
    order.chunk([OffsetRange(at=TopicPartition("topic", 0), start=0, end=20)], 10)

    taken = order.chunk([OffsetRange(at=TopicPartition("topic", 1), start=0, end=20)], 5)

    assert sum(each.offsets for each in taken) == 5
