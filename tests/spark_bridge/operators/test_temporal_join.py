"""Tests temporal joins in one attempt: late rows, and which results are final after a restore."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import functions as F

from flykka.messages.attempt.answers import StageResult
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.code import KeyByCode, OperatorCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_side import JoinedRows
from flykka.spark_bridge.operators.stateless import SideOutputCode
from flykka.spark_bridge.operators.temporal_join import TemporalJoin
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEFT, RIGHT = 0, 1


class Job:
    """A join that reads numbered batches of either side; each batch has rows (key, amount, seconds)."""

    def __init__(
        self, harness: Harness, *batches: Sequence[tuple[int, int, float]], gives_late_data: bool = False
    ) -> None:
        for number, rows in enumerate(batches):
            write_rows(harness.input / f"{number}.parquet", rows)
        prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")
        left, right = (
            JoinedRows(
                prototype=prototype, keys=("key",), event_time=EventTime(column="at"), side_outputs_late_data=late
            )
            for late in (gives_late_data, False)
        )
        columns = F.col("left.amount").alias("one"), F.col("right.amount").alias("other")
        _, self.code, inputs = TemporalJoin(left=left, right=right, columns=columns, is_outer=True).code()
        self.harness = harness
        self._vertices = [harness.source(code, name=f"input-{number}") for number, code in enumerate(inputs)]
        keys = harness.registry.bind("keys of both", KeyByCode(columns=self.code.keys))
        self._sources = [harness.begin(vertex, key_by=keys).open() for vertex in self._vertices]
        self._attempts = 0

    def begin(self, *behind: OperatorCode, restore: TaskStateSnapshot | None = None) -> DrivenAttempt:
        self._attempts += 1
        vertex = self.harness.vertex("join", self.code, *behind, self.harness.sink())
        return self.harness.begin(vertex, number=self._attempts, reads=self._sources[LEFT]).open(restore)

    def process(self, join: DrivenAttempt, number: int, side: int, watermark_ms: int) -> StageResult:
        split = self.harness.splits(self._vertices[side])[number]
        (finished,) = join.run(self._sources[side].read([split]), watermark_ms)
        return finished

    def published(self) -> list[tuple[int | None, ...]]:
        return sorted(map(tuple, self.harness.published().collect()), key=str)


def test_late_and_emitted_rows_stay_so_after_a_restore(harness: Harness) -> None:
    job = Job(harness, [(1, 20, 1.0), (1, 21, 3.0)], [(1, 10, 2.0), (1, 11, 4.0)], [(1, 12, 2.0), (2, 13, 3.5)])
    join = job.begin()
    job.process(join, 0, RIGHT, at_ms(0))
    job.process(join, 1, LEFT, at_ms(0))

    join.advance_watermark(at_ms(3.0))
    state = join.snapshot_and_commit(1, at_ms(3.0)).state
    first = job.published()
    join.close(cancel=True)
    harness.lose_local_state()
    again = job.begin(restore=state)
    late = job.process(again, 2, LEFT, at_ms(0))
    again.advance_watermark(END)
    again.snapshot_and_commit(2, END)

    assert first == [(10, 20)]
    assert late.late_rows == 1
    assert job.published() == [(10, 20), (11, 21), (13, None)]


def test_left_rows_before_the_watermark_go_to_the_late_side_output(harness: Harness) -> None:
    job = Job(harness, [(1, 10, 1.0), (1, 11, 2.0)], [(1, 20, 0.5)], gives_late_data=True)
    join = job.begin(SideOutputCode(tag=Side.LEFT.late_data))
    join.advance_watermark(at_ms(1.0))

    left = job.process(join, 0, LEFT, at_ms(1.0))
    right = job.process(join, 1, RIGHT, at_ms(1.0))
    join.snapshot_and_commit(1, at_ms(1.0))

    assert [left.late_rows, right.late_rows] == [0, 0]
    assert [row.amount for row in harness.published().collect()] == [10]
