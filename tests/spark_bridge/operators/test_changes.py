"""Tests operators over changing rows with a time-to-live in processing time, in one attempt after another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flykka.messages.attempt.commands import ProcessBatch
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.spark_bridge.operators.changes import ChangesCode, Recomputed, changes_code
from flykka.spark_bridge.worker.weighted_results import RowsBeforeAndAfter
from flykka.spark_bridge.worker.weighted_rows import WEIGHT
from tests.spark_bridge.harness import END, Harness, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def added(rows: DataFrame) -> DataFrame:
    return rows.select("key", "amount", F.lit(1).cast("bigint").alias(WEIGHT))


def greatest(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.max("amount").alias("amount"))


def code(harness: Harness, time_to_live_ms: int | None) -> ChangesCode:
    prototype = harness.plane.session.createDataFrame([], f"key long, amount long, {WEIGHT} long")
    function = RowsBeforeAndAfter(columns=("key", "amount"))
    results = Recomputed(compute=greatest, has_keys=True)
    return changes_code(prototype, ["key"], "greatest", function, results, time_to_live_ms)[1]


class Job:
    """Adds the rows of one file after another, and publishes the changes of the greatest amount of each key."""

    def __init__(self, harness: Harness, *batches: Sequence[tuple[int, int]]) -> None:
        for number, rows in enumerate(batches):
            write_rows(harness.input / f"{number}.parquet", [(key, amount, 0.0) for key, amount in rows])
        self._harness = harness
        source = harness.source(transform(added))
        self._source = harness.begin(source).open()
        self._splits = iter(harness.splits(source))
        self._attempts = 0

    def run(
        self, time_to_live_ms: int | None, times_ms: Sequence[int], restore: TaskStateSnapshot | None = None
    ) -> TaskStateSnapshot:
        """Process a file at each of the times, and return the state at the end."""
        self._attempts += 1
        vertex = self._harness.vertex("greatest", code(self._harness, time_to_live_ms), self._harness.sink())
        attempt = self._harness.begin(vertex, number=self._attempts, reads=self._source).open(restore)
        for now_ms in times_ms:
            (output,) = self._source.read([next(self._splits)]).outputs
            attempt.stage += 1
            attempt.tell(
                ProcessBatch(
                    stage=attempt.stage, gate=0, batch=output.batch, watermark_ms=END, processing_time_ms=now_ms
                )
            )
            attempt.expect_result()
        snapshot = attempt.snapshot_and_commit(self._attempts)
        attempt.close(cancel=True)
        self._harness.lose_local_state()
        return snapshot.state

    def published(self) -> list[tuple[int, ...]]:
        """Return the changes as keys, amounts and weights."""
        return sorted(map(tuple, self._harness.published().collect()))


def test_a_key_is_forgotten_when_it_has_not_changed_for_the_time_to_live(harness: Harness) -> None:
    job = Job(harness, [(1, 10), (2, 30)], [(1, 20)], [(1, 15)], [(1, 12)], [(1, 14), (2, 3)])

    before = job.run(1_000, [0, 500, 1_400])
    job.run(1_000, [2_400, 3_000], before)

    changes_of_one = [(1, 10, -1), (1, 10, 1), (1, 12, -1), (1, 12, 1), (1, 14, 1), (1, 20, 1)]
    assert job.published() == [*changes_of_one, (2, 3, 1), (2, 30, 1)]


def test_a_time_to_live_can_be_set_and_unset_with_a_savepoint(harness: Harness) -> None:
    job = Job(harness, [(1, 10), (2, 20), (3, 30)], [(4, 0)], [(1, 5)], [(2, 2)], [(1, 6)], [(1, 7), (2, 1)])

    endless = job.run(None, [0])
    limited = job.run(1_000, [5_000, 5_900, 6_000], endless)
    shorter = job.run(200, [7_000], limited)
    job.run(None, [9_000], shorter)

    # Only the second row of key 2 was too late: the others counted from the start of their execution.
    assert job.published() == [(1, 10, 1), (2, 2, 1), (2, 20, 1), (3, 30, 1), (4, 0, 1)]
    assert code(harness, 200).fingerprint == code(harness, None).fingerprint
