"""Tests interval joins in one attempt: late rows, the content of a snapshot, and what is removed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import functions as F

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.messages.attempt.answers import StageResult
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import IntervalJoinCode, pairs
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide, JoinSideCode
from flykka.spark_bridge.operators.stateless import SideOutputCode
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEFT, RIGHT = 0, 1
SECOND = Interval(lower_ms=-1000, upper_ms=1000)


def code(harness: Harness, *outer: Side, gives_late_data: bool = False) -> IntervalJoinCode:
    prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")

    def draft(left: JoinSide, right: JoinSide) -> IntervalJoinCode:
        columns = F.col("left.amount").alias("one"), F.col("right.amount").alias("other")
        return IntervalJoinCode(left=left, right=right, interval=SECOND, columns=columns, outer=frozenset(outer))

    side = JoinedRows(
        prototype=prototype, keys=("key",), event_time=EventTime(column="at"), side_outputs_late_data=gives_late_data
    )
    return pairs(side, side, draft)[1]


class Job:
    """A job that joins batches sent to one of the join's two inputs; rows of batches are (key, amount, seconds)."""

    def __init__(self, harness: Harness, join: IntervalJoinCode, *batches: Sequence[tuple[int, int, float]]) -> None:
        for number, rows in enumerate(batches):
            write_rows(harness.input / f"{number}.parquet", rows)
        self.harness = harness
        self._source_vertex = harness.source(JoinSideCode(side=join.left))
        self._source = harness.begin(self._source_vertex).open()
        self._attempts = 0

    def begin(self, *codes: OperatorCode, restore: TaskStateSnapshot | None = None) -> DrivenAttempt:
        self._attempts += 1
        vertex = self.harness.vertex("join", *codes, self.harness.sink())
        return self.harness.begin(vertex, number=self._attempts, reads=self._source).open(restore)

    def process(self, join: DrivenAttempt, number: int, gate: int, watermark_ms: int) -> StageResult:
        split = self.harness.splits(self._source_vertex)[number]
        (finished,) = join.run(self._source.read([split]), watermark_ms, gate=gate)
        return finished

    def published(self) -> list[tuple[int | None, ...]]:
        rows = self.harness.published().collect()
        return sorted(map(tuple, rows), key=str)


def test_a_late_row_has_no_match_and_is_counted(harness: Harness) -> None:
    inner = code(harness)
    job = Job(harness, inner, [(1, 10, 5.0)], [(1, 20, 5.5)], [(1, 30, 4.9), (1, 31, 6.0), (2, 32, 6.0)])
    join = job.begin(inner)

    on_time = [job.process(join, number, gate, at_ms(4.0)) for number, gate in ((0, LEFT), (1, RIGHT))]
    late = job.process(join, 2, LEFT, at_ms(5.0))
    join.snapshot_and_commit(1, at_ms(5.0))

    assert [each.late_rows for each in on_time] == [0, 0]
    assert late.late_rows == 1
    assert job.published() == [(10, 20), (31, 20)]


def test_a_late_row_goes_to_the_late_side_output_of_its_side(harness: Harness) -> None:
    inner = code(harness, gives_late_data=True)
    job = Job(harness, inner, [(1, 10, 4.9), (1, 11, 5.0)], [(1, 20, 4.8)])
    join = job.begin(inner, SideOutputCode(tag=Side.RIGHT.late_data))

    left = job.process(join, 0, LEFT, at_ms(5.0))
    right = job.process(join, 1, RIGHT, at_ms(5.0))
    join.snapshot_and_commit(1, at_ms(5.0))

    assert [left.late_rows, right.late_rows] == [0, 0]
    assert [row.amount for row in harness.published().collect()] == [20]


def test_unmatched_rows_are_emitted_once_even_after_a_restore(harness: Harness) -> None:
    full = code(harness, Side.LEFT, Side.RIGHT)
    job = Job(harness, full, [(1, 10, 1.0), (2, 11, 1.5), (3, 12, 4.0)], [(2, 20, 2.4), (4, 21, 2.0)])
    join = job.begin(full)
    job.process(join, 0, LEFT, at_ms(0))
    job.process(join, 1, RIGHT, at_ms(0))

    join.advance_watermark(at_ms(2.1))
    snapshotted = join.snapshot_and_commit(1, at_ms(2.1))
    first = job.published()
    join.close(cancel=True)
    harness.lose_local_state()
    again = job.begin(full, restore=snapshotted.state)
    again.advance_watermark(at_ms(2.1))
    again.advance_watermark(END)
    again.snapshot_and_commit(2, END)

    assert first == [(10, None), (11, 20)]
    assert job.published() == [(10, None), (11, 20), (12, None), (None, 21)]


def test_rows_of_a_side_are_removed_after_the_watermark(harness: Harness) -> None:
    inner = code(harness)
    job = Job(harness, inner, [(1, 10, 1.0)], [(1, 20, 1.5)])
    join = job.begin(inner)
    job.process(join, 0, LEFT, at_ms(0))
    job.process(join, 1, RIGHT, at_ms(0))
    join.snapshot_and_commit(1, at_ms(0))

    join.advance_watermark(at_ms(2.2))
    half = join.snapshot_and_commit(2, at_ms(2.2))
    join.advance_watermark(at_ms(2.6))
    none = join.snapshot_and_commit(3, at_ms(2.6))

    assert [handle.state_name for handle in half.shared] == ["right"]
    assert none.shared == []


def test_many_small_batches_are_merged(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkStateBackend, "merge_at", 8)
    before = harness.persisted()
    inner = code(harness)
    job = Job(harness, inner, *([(number, number, 1.0)] for number in range(9)))
    join = job.begin(inner)

    for number in range(8):
        job.process(join, number, LEFT, at_ms(0))
    job.process(join, 8, RIGHT, at_ms(0))
    snapshotted = join.snapshot_and_commit(1, at_ms(0))

    assert {handle.state_name: handle.rows for handle in snapshotted.shared} == {"left": 8, "right": 1}
    assert len(harness.persisted() - before) <= 4
