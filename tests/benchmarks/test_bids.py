"""Tests that bids are the same for all systems, and distributed like Nexmark's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.bids import bids
from benchmarks.prepared import write

pytestmark = pytest.mark.slow

A_SECOND = 9_200


def test_a_seed_generates_the_same_bids_every_time() -> None:
    drawn = [bids(1_000, 500, seed) for seed in (1, 1, 2)]

    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_bid_does_not_depend_on_file_boundaries() -> None:
    whole = bids(1_000, 500, seed=1)

    assert pa.concat_tables([bids(1_000, 123, seed=1), bids(1_123, 377, seed=1)]).combine_chunks() == whole


def test_event_time_never_goes_back_and_a_second_has_9200_bids() -> None:
    times = bids(0, 3 * A_SECOND, seed=1)["event_time"]

    seconds = pc.value_counts(pc.floor_temporal(times, unit="second"))

    assert pc.all(pc.less(times.slice(0, len(times) - 1), times.slice(1))).as_py()
    assert seconds.field("counts").to_pylist() == [A_SECOND] * 3


def test_every_other_bid_is_for_a_hot_auction() -> None:
    # Fewer auctions are open at the start.
    second = bids(10 * A_SECOND, A_SECOND, seed=1)

    counts = sorted(pc.value_counts(second["auction"]).field("counts").to_pylist(), reverse=True)

    assert 0.45 < sum(counts[:7]) / A_SECOND < 0.55
    assert 600 < len(counts) < 800


def test_event_times_passed_to_spark_have_a_time_zone() -> None:
    assert bids(0, 1, seed=1).schema.field("event_time").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("files", [1, 3, 7])
def test_files_partition_the_bids_and_are_ordered_by_name_and_age(tmp_path: Path, files: int) -> None:
    write(tmp_path / "bids", "bids", bids, 1_000, files, seed=1)

    paths = sorted((tmp_path / "bids").iterdir())

    assert paths == sorted(paths, key=lambda path: path.stat().st_mtime_ns)
    assert len(paths) == files
    read = pa.concat_tables([pq.read_table(path) for path in paths])
    assert read.num_rows == 1_000
    assert read["event_time"].combine_chunks() == bids(0, 1_000, seed=1)["event_time"].combine_chunks()
