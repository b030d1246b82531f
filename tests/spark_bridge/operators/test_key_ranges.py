"""Tests that segments are skipped if their key ranges exclude all keys of a few rows."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.actors.machines.state.segments import Reading, Segment
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.operators.join_code import KeyRanges

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def reading(name: str, frame: DataFrame, rows: int) -> Reading[DataFrame]:
    return Reading(segment=Segment(batch_id=BatchId(name), frame=frame, rows=rows))


def segment_ids(readings: object, ranges: KeyRanges, few: DataFrame) -> list[str]:
    assert isinstance(readings, list)
    return [each.segment.batch_id for each in ranges.within(readings, lambda: ranges.of_rows(few))]


def test_segments_of_other_keys_are_skipped_after_their_rows_were_read(spark: SparkSession) -> None:
    ranges = KeyRanges(F.col("id") * 2)
    frames = {name: spark.range(first, first + 10) for name, first in (("old", 0), ("new", 10), ("unseen", 0))}
    readings = [reading(name, frame, 10) for name, frame in frames.items()]
    few = spark.range(15, 17)
    watched = [ranges.watched(frames[name]) for name in ("old", "new")]
    assert segment_ids(readings, ranges, few) == ["old", "new", "unseen"]

    for frame in watched:
        frame.collect()

    assert segment_ids(readings, ranges, few) == ["new", "unseen"]
    assert segment_ids(readings, ranges, few.limit(0)) == ["old", "new", "unseen"]
    # At least one segment must be joined: the smallest one.
    readings = [reading("old", frames["old"], 10), reading("new", frames["new"], 9)]
    assert segment_ids(readings, ranges, spark.range(50, 60)) == ["new"]


@pytest.mark.parametrize("data_type", ["double", "timestamp"])
def test_keys_ordered_differently_in_python_do_not_exclude_segments(spark: SparkSession, data_type: str) -> None:
    ranges = KeyRanges(F.col("id").cast(data_type))
    frame = spark.range(10)

    assert ranges.watched(frame) is frame
    assert segment_ids([reading("all", frame, 10)], ranges, spark.range(50, 60)) == ["all"]
