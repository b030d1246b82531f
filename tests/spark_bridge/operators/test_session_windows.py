"""Tests sessions by key on Spark: they equal those of a batch at any parallelism, and late rows are counted."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.aggregates import PartialAggregates, analyze
from tests.spark_bridge.harness import Harness, at_ms
from tests.spark_bridge.keyed_attempts import KeyedAttempts, Sale, take_snapshots

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES: list[list[Sale]] = [
    [(1, 1, 0.0), (1, 2, 4.0), (2, 3, 1.0), (3, 7, 2.0)],
    [(1, 4, 9.0), (2, 5, 30.0), (2, None, 12.0)],
    [(1, 6, 16.0), (2, 7, 21.0), (3, 8, 60.0)],
]


class Sessions(KeyedAttempts):
    def __init__(self, harness: Harness) -> None:
        prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")
        plan = analyze(prototype, ("key",), (F.count("*").alias("n"), F.max("at").alias("last"), F.sum("amount")))
        assert isinstance(plan, PartialAggregates)
        code = SessionWindowCode(plan=plan, event_time=EventTime(column="at"), gap_ms=10_000)
        super().__init__(harness, code, FILES, LocalAggregateCode(of=code))

    def published(self) -> list[tuple[int, ...]]:
        """Return the published sessions: key, first and last second, end, row count and sum."""
        seconds = (F.col(name).cast("long") for name in ("window_start", "last", "window_end"))
        rows = self.harness.published().select("key", *seconds, "n", "sum(amount)")
        return sorted(map(tuple, rows.collect()))


def batch_sessions(harness: Harness) -> list[tuple[int, ...]]:
    """Return the expected sessions, computed with Spark's session_window."""
    rows = harness.plane.session.read.parquet(str(harness.input))
    session = F.session_window("at", "10 seconds").alias("w")
    sessions = rows.groupBy("key", session).agg(F.max("at").alias("last"), F.count("*").alias("n"), F.sum("amount"))
    seconds = (F.col(name).cast("long") for name in ("w.start", "last", "w.end"))
    return sorted(map(tuple, sessions.select("key", *seconds, "n", "sum(amount)").collect()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 1),
        pytest.param(1, 2, marks=pytest.mark.long),
        pytest.param(1, 3, marks=pytest.mark.long),
        # Of three subtasks, one is taken over as a whole, and one is split in two.
        pytest.param(3, 2, marks=pytest.mark.long),
    ],
)
def test_sessions_equal_a_batch_even_after_rescaling(harness: Harness, before: int, after: int) -> None:
    sessions = Sessions(harness)
    subtasks = sessions.begin(before)
    sessions.read(subtasks, 0, 1)
    for each in subtasks:
        each.advance_watermark(at_ms(12))

    others = sessions.begin(after, take_snapshots(subtasks, 1))
    sessions.read(others, 2)
    for each in others:
        each.advance_watermark(WATERMARK_MAX)
    take_snapshots(others, 2)

    assert sessions.published() == batch_sessions(harness)


def test_a_session_is_emitted_when_the_watermark_reaches_its_end(harness: Harness) -> None:
    sessions = Sessions(harness)
    (subtask,) = sessions.begin()
    sessions.read([subtask], 0)

    emitted = [subtask.advance_watermark(at_ms(seconds)).rows_out for seconds in (10.999, 11, 11.999, 14)]
    subtask.close(cancel=True)

    assert emitted == [0, 1, 0, 2]


def test_rows_of_ended_sessions_are_late_and_reported(harness: Harness) -> None:
    sessions = Sessions(harness)
    (subtask,) = sessions.begin()

    late = []
    for file, watermark_ms in ((1, WATERMARK_MIN), (0, at_ms(13)), (2, at_ms(50))):
        batch = sessions.source.read([sessions.splits[file]])
        late += [finished.late_rows for finished in subtask.run(batch, watermark_ms)]
    subtask.close(cancel=True)

    # For the second batch, open sessions accept only the rows of key 1; for the next batch, they accept all late
    # rows.
    assert late == [0, 2, 0]
