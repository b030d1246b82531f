"""Tests that a source reads the remaining records of a compacted topic, wherever the source begins and ends."""

from __future__ import annotations

import time

import pytest

from benchmarks.connectors.broker import Broker
from flykka import KafkaSource, OffsetsInitializer
from tests.spark_bridge.connectors.kafka.records import discover_splits, records

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
LEFT = [0, 29, 48, 49]


@pytest.fixture(scope="module")
def compacted(kafka: Broker) -> str:
    """A topic in which the offsets 0, 29, 48 and 49 remain."""
    topic, hour_ago_ms = "compacted", round(time.time() * 1000) - 3_600_000
    kafka.create(
        topic, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms=100, max_compaction_lag_ms=100
    )
    keys = [b"alone", *[b"first"] * 29, *[b"second"] * 19, b"last"]
    for second, key in enumerate(dict.fromkeys(keys)):
        # Each key starts a new segment, because the active segment is not compacted.
        values = [b"%d" % offset for offset, each in enumerate(keys) if each == key]
        kafka.send(topic, *values, key=key, timestamp=hour_ago_ms + second * 1_000)
    deadline = time.monotonic() + DEADLINE_S
    while offsets(KafkaSource.of_topics(kafka.address, topic)) != LEFT:
        assert time.monotonic() < deadline, "the broker does not compact the topic"
    return topic


def offsets(source: KafkaSource, tasks: int = 1) -> list[int]:
    """Return the offsets of the records that the source reads; each record's value is its offset."""
    read = records(source, discover_splits(source).splits, tasks)
    assert [record.value for record in read] == [b"%d" % record.offset for record in read]
    return [record.offset for record in read]


@pytest.mark.parametrize("tasks", [pytest.param(1, marks=pytest.mark.long), 7])
def test_remaining_records_are_read_by_any_number_of_tasks(kafka: Broker, compacted: str, tasks: int) -> None:
    assert offsets(KafkaSource.of_topics(kafka.address, compacted), tasks) == LEFT


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(10, 50, [29, 48, 49], id="begins in a gap", marks=pytest.mark.long),
        pytest.param(0, 40, [0, 29], id="ends in a gap", marks=pytest.mark.long),
        pytest.param(10, 40, [29], id="begins and ends in gaps"),
        pytest.param(5, 20, [], id="within a gap"),
    ],
)
def test_a_range_may_begin_and_end_at_a_missing_offset(
    kafka: Broker, compacted: str, start: int, end: int, expected: list[int]
) -> None:
    source = (
        KafkaSource.of_topics(kafka.address, compacted)
        .start_from(OffsetsInitializer.offsets({(compacted, 0): start}))
        .bounded(OffsetsInitializer.offsets({(compacted, 0): end}))
    )

    assert discover_splits(source).finished
    assert offsets(source) == expected
    assert offsets(source, tasks=4) == expected
