"""Tests that a restarted subtask uses checkpoint rows that executors still hold, and reads others from storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from pyspark import SparkFiles

from flykka.spark_bridge.operators.keyed_store import KeyedOperator
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.rows.materialise import Blocks
from flykka.spark_bridge.state.segment_files import FileStateBackend
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, write_rows
from tests.spark_bridge.keyed_attempts import KeyedAttempts
from tests.spark_bridge.operators.test_keyed_rows import FILES, VERBS, keyed

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def segments_of(attempt: DrivenAttempt) -> list[Path]:
    operator = attempt.engine.head
    assert isinstance(operator, KeyedOperator)
    (store,) = operator.stores.values()
    backend = store.backend
    assert isinstance(backend, FileStateBackend)
    return [backend.folder.path(segment.batch_id) for segment in store.segments.live]


def totals(attempts: KeyedAttempts) -> dict[int, int]:
    """Return the row count of each key in the newest result."""
    rows = attempts.harness.published().groupBy("key").agg({"n": "max"}).collect()
    return {row[0]: row[1] for row in rows}


def true_totals() -> dict[int, int]:
    keys = [key for rows in FILES for key, _, _ in rows]
    return {key: keys.count(key) for key in keys}


def end(attempt: DrivenAttempt, checkpoint_id: int) -> None:
    attempt.snapshot(checkpoint_id, END)
    attempt.commit(checkpoint_id)
    attempt.close()


def delete(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def delete_one(files: list[Path]) -> None:
    files[0].unlink()


def cut(files: list[Path]) -> None:
    for file in files:
        file.write_bytes(file.read_bytes()[:-8])


def test_segments_of_a_checkpoint_outlive_their_attempt_and_are_reused(harness: Harness) -> None:
    attempts = keyed(harness, VERBS[0])
    (first,) = attempts.begin()
    attempts.read([first], 0, 1)
    state = first.snapshot(1).state
    first.commit(1)
    kept = segments_of(first)
    attempts.read([first], 2)
    newer = set(segments_of(first)) - set(kept)
    first.close(cancel=True)
    rmtree(harness.folder / "checkpoints")

    (second,) = attempts.begin(1, [state])

    assert [path.exists() for path in kept] == [True, True]
    assert [path.exists() for path in newer] == [False]
    attempts.read([second], 2)
    end(second, 2)
    assert totals(attempts) == true_totals()


@pytest.mark.parametrize(
    "lose",
    [pytest.param(delete, marks=pytest.mark.long), delete_one, pytest.param(cut, marks=pytest.mark.long)],
    ids=["deleted", "one deleted", "cut off"],
)
def test_incomplete_segments_are_read_from_the_checkpoint(harness: Harness, lose: Callable[[list[Path]], None]) -> None:
    attempts = keyed(harness, VERBS[0])
    (first,) = attempts.begin()
    attempts.read([first], 0, 1)
    state = first.snapshot(1).state
    first.commit(1)
    files = segments_of(first)
    first.close(cancel=True)
    lose(files)

    (second,) = attempts.begin(1, [state])
    attempts.read([second], 2)
    end(second, 2)

    assert totals(attempts) == true_totals()


def test_a_later_checkpoint_or_the_jobs_end_releases_segments(harness: Harness) -> None:
    attempts = keyed(harness, VERBS[0])
    (first,) = attempts.begin()
    for checkpoint_id, file in enumerate((0, 1), start=1):
        attempts.read([first], file)
        first.snapshot(checkpoint_id)
        first.commit(checkpoint_id)
    first.close(cancel=True)
    folder = Path(SparkFiles.getRootDirectory(), "flykka-state", harness.job_id)

    assert len([path for path in folder.rglob("*") if path.is_file()]) == 2
    harness.plane.release_job(harness.job_id)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "is_lost", [False, pytest.param(True, marks=pytest.mark.long)], ids=["still registered", "lost"]
)
def test_windows_reuse_blocks_that_still_exist(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    write_rows(harness.input / "0.parquet", [(1, 10, 0.0), (2, 20, 0.5), (1, 30, 1.5), (1, 40, 2.0)])
    windows = harness.windows()
    source_vertex = harness.source(LocalAggregateCode(of=windows))
    source = harness.begin(source_vertex).open()
    vertex = harness.vertex("windows", windows, harness.sink())
    first = harness.begin(vertex, reads=source).open()
    first.run(source.read(harness.splits(source_vertex)))
    state = first.snapshot(1, at_ms(1)).state
    first.commit(1)
    first.close(cancel=True)
    if is_lost:
        lose_blocks(harness)
    else:
        rmtree(harness.folder / "checkpoints")

    second = harness.begin(vertex, reads=source, number=1).open(state)
    end(second, 2)

    rows: list[Any] = harness.published().orderBy("window_start", "key").collect()
    assert [(row.key, row.n) for row in rows] == [(1, 1), (2, 1), (1, 1), (1, 1)]


def lose_blocks(harness: Harness) -> None:
    """Remove the rows of all batches, as if an executor were lost."""
    store = harness.plane._jobs[harness.job_id].services.store
    (blocks,) = (storage for storage in store._stored_in if isinstance(storage, Blocks))
    blocks.rdd.unpersist(True)
