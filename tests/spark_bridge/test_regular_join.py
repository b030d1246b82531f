"""Tests regular joins in one attempt: rows are joined whenever they arrive, within their time-to-live."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import functions as F

from flykka.messages.attempt.commands import ProcessBatch
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.spark_bridge.operators.join_code import RegularJoinCode, pairs
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide, JoinSideCode
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEFT, RIGHT = 0, 1


def code(harness: Harness, time_to_live_ms: int | None = None) -> RegularJoinCode:
    prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")

    def draft(left: JoinSide, right: JoinSide) -> RegularJoinCode:
        columns = F.col("left.amount").alias("one"), F.col("right.amount").alias("other")
        return RegularJoinCode.of(
            left, right, columns=columns, condition=None, left_gates=1, time_to_live_ms=time_to_live_ms
        )

    side = JoinedRows(prototype=prototype, keys=("key",), event_time=None, has_arrivals=time_to_live_ms is not None)
    return pairs(side, side, draft)[1]


class Job:
    """A source whose batches are sent to either gate of a join; each batch has rows (key, amount, seconds)."""

    def __init__(
        self, harness: Harness, join: RegularJoinCode, *batches: Sequence[tuple[int | None, int, float]]
    ) -> None:
        for number, rows in enumerate(batches):
            write_rows(harness.input / f"{number}.parquet", rows)
        self.harness = harness
        self._join = join
        self._source_vertex = harness.source(JoinSideCode(side=join.left))
        self._source = harness.begin(self._source_vertex).open()
        self._attempts = 0

    def begin(self, restore: TaskStateSnapshot | None = None) -> DrivenAttempt:
        self._attempts += 1
        vertex = self.harness.vertex("join", self._join, self.harness.sink())
        return self.harness.begin(vertex, number=self._attempts, reads=self._source).open(restore)

    def process(self, join: DrivenAttempt, number: int, gate: int, *, now_ms: int = 0) -> None:
        split = self.harness.splits(self._source_vertex)[number]
        (output,) = self._source.read([split]).outputs
        join.stage += 1
        join.tell(
            ProcessBatch(stage=join.stage, gate=gate, batch=output.batch, watermark_ms=END, processing_time_ms=now_ms)
        )
        join.expect_result()

    def published(self) -> list[tuple[int, ...]]:
        return sorted(map(tuple, self.harness.published().collect()))


def test_rows_match_in_any_arrival_order_even_after_a_restore(harness: Harness) -> None:
    job = Job(harness, code(harness), [(1, 10, 9.0), (None, 11, 9.0)], [(1, 20, 1.0), (None, 21, 1.0)], [(1, 30, 0)])
    join = job.begin()
    job.process(join, 0, LEFT)
    job.process(join, 1, RIGHT)
    snapshotted = join.snapshot_and_commit(1)
    join.close(cancel=True)
    harness.lose_local_state()

    again = job.begin(snapshotted.state)
    job.process(again, 2, RIGHT)
    again.snapshot_and_commit(2)

    assert job.published() == [(10, 20), (10, 30)]


def test_rows_are_removed_when_their_time_to_live_has_ended(harness: Harness) -> None:
    batches = [(1, 10, 0)], [(1, 20, 0)], [(1, 30, 0)], [(1, 40, 0)]
    job = Job(harness, code(harness, time_to_live_ms=1_000), *batches)
    join = job.begin()

    job.process(join, 0, LEFT, now_ms=at_ms(1.0))
    job.process(join, 1, RIGHT, now_ms=at_ms(2.0))
    both = join.snapshot_and_commit(1)
    join.close(cancel=True)
    harness.lose_local_state()
    again = job.begin(both.state)
    job.process(again, 2, LEFT, now_ms=at_ms(2.5))
    job.process(again, 3, RIGHT, now_ms=at_ms(3.1))
    left = again.snapshot_and_commit(2)

    assert job.published() == [(10, 20), (30, 20), (30, 40)]
    assert [(each.state_name, each.rows) for each in both.shared] == [("left", 1), ("right", 1)]
    assert sorted((each.state_name, each.rows) for each in left.shared) == [("left", 1), ("right", 1)]


def test_many_rows_are_joined_in_place(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.spark_bridge.operators.join_code._ROWS_OF_ONE_CORE", 2)
    job = Job(harness, code(harness), [(1, 10, 0), (2, 11, 0), (2, 12, 0)], [(2, 20, 0)], [(2, 13, 0)])
    join = job.begin()

    job.process(join, 0, LEFT)
    job.process(join, 1, RIGHT)
    job.process(join, 2, LEFT)
    join.snapshot_and_commit(1)

    assert job.published() == [(11, 20), (12, 20), (13, 20)]
