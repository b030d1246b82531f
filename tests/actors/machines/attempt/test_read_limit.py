"""The number of waiting splits in the next batch, derived from the durations of finished stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.attempt.source import (
    COLD_STAGES,
    GROWTH,
    LIMIT_MAX,
    LIMIT_START,
    OPEN_BYTES,
    PATIENCE,
    ROW_BYTES,
    SMALL,
    ReadLimit,
)
from flykka.messages.tasks.source import FileBatchSplit, SourceSplit, size_of
from flykka.messages.wire.ids import SplitId

MIB = 1024**2


def split(size_bytes: int | None, rows: int = 0) -> FileBatchSplit:
    return FileBatchSplit(split_id=SplitId("file"), rows=rows, files=(), size_bytes=size_bytes)


def warm() -> ReadLimit:
    """Return a limit after the first stages, which are slow because Spark compiles."""
    limit = ReadLimit()
    for _ in range(COLD_STAGES):
        limit.learn(limit.bytes, 1_000)
    return limit


@pytest.mark.parametrize(
    ("waiting", "taken"),
    [
        ([], 0),
        ([0], 1),
        ([0] * 1_000, LIMIT_START // OPEN_BYTES),
        ([MIB - OPEN_BYTES] * 100, LIMIT_START // MIB),
        ([LIMIT_START - OPEN_BYTES, 0], 1),
        ([10 * LIMIT_MAX, 0], 1),
        ([0, 10 * LIMIT_MAX, 0], 1),
        ([None, None], 1),
        ([None, 0], 1),
        ([0, 0, None], 2),
    ],
)
def test_a_batch_contains_at_least_one_split_up_to_the_limit(waiting: list[int | None], taken: int) -> None:
    assert ReadLimit().next_batch([split(size) for size in waiting]) == taken


def test_the_row_estimate_of_a_dense_file_limits_the_batch() -> None:
    dense = split(1_000, rows=LIMIT_START // ROW_BYTES // 2)

    assert ReadLimit().next_batch([dense, dense]) == 1


@pytest.mark.parametrize(
    ("durations_ms", "limits_mib"),
    [
        ([500], [32]),
        ([800], [20]),
        ([1_000], [16]),
        ([10], [64]),
        ([10, 10, 10], [64, 128, 128]),
        ([1_500], [16]),
        ([1_600], [10]),
        ([9_000], [8]),
        ([9_000, 9_000, 9_000], [8, 4, 2]),
        ([250, 1_900, 1_000], [64, 33, 33]),
    ],
)
def test_the_limit_approaches_the_bytes_that_a_full_batch_reads_per_second(
    durations_ms: list[int], limits_mib: list[int]
) -> None:
    limit = warm()

    found = []
    for duration_ms in durations_ms:
        limit.learn(limit.bytes, duration_ms)
        found.append(limit.bytes // MIB)

    assert found == limits_mib


def test_a_batch_less_than_half_full_does_not_change_the_limit() -> None:
    limit = warm()

    limit.learn(LIMIT_START // 2 - 1, 10)

    assert limit.bytes == LIMIT_START


def test_a_slow_partial_batch_lowers_the_limit() -> None:
    limit = warm()

    limit.learn(LIMIT_START // 4, 2_000)

    assert limit.bytes == LIMIT_START // 2


def test_slow_stages_due_to_spark_compilation_do_not_lower_the_limit() -> None:
    limit = ReadLimit()

    for _ in range(COLD_STAGES):
        limit.learn(LIMIT_START, 60_000)

    assert limit.bytes == LIMIT_START


def test_the_limit_of_a_slow_machine_exceeds_the_minimum() -> None:
    limit = warm()
    limit.learn(OPEN_BYTES, 1_200)

    # Each stage takes 1.2 s plus 1 s for every 64 MiB.
    for _ in range(50):
        limit.learn(limit.bytes, 1_200 + 1_000 * limit.bytes // (64 * MIB))

    assert limit.bytes > 64 * MIB


def test_batches_stay_large_if_the_machine_becomes_busy() -> None:
    limit = warm()
    limit.learn(OPEN_BYTES, 100)

    # Stages take two seconds instead of 0.1 s, but reading takes the same share of the time.
    for _ in range(50):
        limit.learn(limit.bytes, 2_000 + 100 * limit.bytes // MIB)

    assert limit.bytes > SMALL


def test_the_limit_converges_to_one_second_of_rows_from_both_sides() -> None:
    for mib_per_second in (4, 16, 100):
        limit = warm()

        for _ in range(50):
            limit.learn(limit.bytes, 100 + 1_000 * limit.bytes // (mib_per_second * MIB))

        took_ms = 100 + 1_000 * limit.bytes // (mib_per_second * MIB)
        assert 900 <= took_ms <= 1_000 * PATIENCE, f"{mib_per_second} MiB/s: {took_ms} ms"


@given(st.lists(st.tuples(st.integers(0, 4 * LIMIT_MAX), st.integers(0, 100_000))))
def test_the_limit_stays_within_its_bounds_for_any_measurements(stages: list[tuple[int, int]]) -> None:
    limit = ReadLimit()

    for cost, duration_ms in stages:
        before = limit.bytes
        limit.learn(cost, duration_ms)
        limit.check()
        assert before // 2 <= limit.bytes <= GROWTH * before


@given(st.lists(st.one_of(st.none(), st.integers(0, LIMIT_MAX)), min_size=1))
def test_batches_contain_every_split_once_and_exceed_the_limit_by_one_split(sizes: list[int | None]) -> None:
    limit, waiting = ReadLimit(), [split(size) for size in sizes]
    batches: list[list[SourceSplit]] = []

    left: list[SourceSplit] = list(waiting)
    while left:
        count = limit.next_batch(left)
        batches.append(left[:count])
        left = left[count:]

    assert [each for batch in batches for each in batch] == waiting
    assert all(len(batch) == 1 or sum(map(limit.cost, batch)) <= limit.bytes for batch in batches)
    assert all(len(batch) == 1 or None not in map(size_of, batch) for batch in batches)
