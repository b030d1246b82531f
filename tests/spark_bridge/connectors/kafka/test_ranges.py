"""Tests that a split names all partitions of its source."""

from __future__ import annotations

from dataclasses import replace

from flykka import JsonFormat, KafkaSource
from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, TopicPartition, offset_split


def test_an_empty_partition_holds_back_event_time() -> None:
    source = KafkaSource.of_topics("broker:9092", "bids").values(JsonFormat("at timestamp"))
    ranges = [
        OffsetRange(at=TopicPartition("bids", 0), start=120, end=180),
        OffsetRange(at=TopicPartition("bids", 1), start=0, end=0),
    ]

    timed = replace(source, event_time="at")

    assert timed.partitions_of([offset_split(0, ranges)]) == ["bids-0", "bids-1"]
