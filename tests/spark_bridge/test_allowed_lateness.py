"""Tests allowed lateness of windows in columns: each batch publishes the same results as Flink's windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.key_groups import key_group_range
from flykka.messages.attempt.commands import AdvanceWatermark
from flykka.messages.graph.job_graph import FiringMode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.aggregates import whole_row_state
from tests.conformance.key_groups.checkpoints import checkpoint_of_states
from tests.spark_bridge.driven_attempts import DrivenAttempt, Snapshot
from tests.spark_bridge.harness import END, Harness, at_ms, count_and_most, write_rows
from tests.spark_bridge.windows_in_memory import FlinkWindows, Result, Rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LATENESS_MS = 3000
BATCHES: list[list[tuple[int, float]]] = [
    [(1, 0.5), (2, 1.0), (3, 2.5), (1, 3.0), (1, 5.0)],
    [(1, 1.5), (2, 6.0), (2, 2.0), (2, 2.1)],
    [(3, 3.9), (3, 9.0), (1, 0.1)],
    [(2, 3.0), (1, 10.5), (3, 7.0), (4, 7.5)],
    [(1, 0.0), (2, 7.9), (3, 11.0)],
]
"""Batches of keys and seconds."""
Published = Counter[tuple[int, int, int, int]]
"""Published windows: the start in ms, a key, the row count, and the largest amount."""


class Job:
    """A source and windows with allowed lateness, and a model of Flink's windows. Each step is a checkpoint."""

    def __init__(self, harness: Harness, windows: WindowCode, firing_mode: FiringMode) -> None:
        self.numbers: list[Rows] = []
        for number, rows in enumerate(BATCHES):
            batch = tuple((key, at_ms(second), number * 10 + place) for place, (key, second) in enumerate(rows))
            self.numbers.append(batch)
            path = harness.input / f"{number}.parquet"
            write_rows(path, [(key, amount, second) for (key, _, amount), (_, second) in zip(batch, rows, strict=True)])
        self.harness = harness
        self.deferred = firing_mode is FiringMode.ON_CHECKPOINT
        self.vertex = harness.vertex("windows", windows, harness.sink(), firing_mode=firing_mode)
        local = () if windows.side_outputs_late_data else (LocalAggregateCode(of=windows),)
        self.source_vertex = harness.source(*local)
        self.flink = FlinkWindows(windows=windows.windows, allowed_lateness_ms=windows.allowed_lateness_ms)
        self.counts_late = not windows.side_outputs_late_data
        self.snapshots: list[Snapshot] = []
        self.source: DrivenAttempt | None = None
        self.subtasks: list[DrivenAttempt] = []
        self.attempts = self.checkpoints = 0
        self.emitted: list[Result] = []
        self.published: Published = Counter()
        self.begin(1)

    def begin(self, parallelism: int) -> None:
        if self.source is not None:
            for each in (self.source, *self.subtasks):
                each.close(cancel=True)
        vertex = replace(self.vertex, parallelism=parallelism)
        before = replace(self.vertex, parallelism=len(self.snapshots) or parallelism)
        states = assign(
            checkpoint_of_states({before.vertex_id: (before, [each.state for each in self.snapshots])}), [vertex]
        ).states
        number, self.attempts = self.attempts, self.attempts + 1
        self.source = self.harness.begin(self.source_vertex, readers=parallelism, number=number).open()
        self.subtasks = [
            self.harness.begin(vertex, subtask=subtask, number=number, reads=self.source).open(
                states.get((vertex.vertex_id, subtask))
            )
            for subtask in range(parallelism)
        ]
        every_key = key_group_range(0, 127)
        assert every_key is not None
        self.flink = self.flink.of_keys(every_key)

    def process(self, number: int) -> None:
        splits = self.harness.splits(self.source_vertex)
        assert self.source is not None
        batches = self.source.read([splits[number]])
        late = 0
        for subtask, windows in enumerate(self.subtasks):
            late += sum(each.late_rows for each in windows.run(batches, self.flink.watermark, subpartition=subtask))
        expected = self.flink.add(self.numbers[number])
        assert late == (expected if self.counts_late else 0)
        if not self.deferred:
            self.emitted += self.flink.fire(self.flink.fired)
        self.checkpoint()

    def advance(self, watermark_ms: int) -> None:
        self.flink.watermark = watermark_ms
        if not self.deferred:
            for windows in self.subtasks:
                windows.stage += 1
                windows.tell(AdvanceWatermark(stage=windows.stage, watermark_ms=watermark_ms))
                windows.expect_result()
            self.emitted += self.flink.fire(watermark_ms)
        self.checkpoint()

    def checkpoint(self) -> None:
        self.checkpoints += 1
        self.snapshots = [each.snapshot(self.checkpoints, self.flink.watermark) for each in self.subtasks]
        for windows in self.subtasks:
            windows.commit(self.checkpoints)
        if self.deferred:
            self.emitted += self.flink.fire(self.flink.watermark)
        expected = Counter((start, key, len(rows), max(rows)) for start, key, rows in self.emitted)
        published = self._published()
        assert published - self.published == expected
        self.published, self.emitted = published, []

    def _published(self) -> Published:
        if not list(self.harness.output.rglob("*.parquet")):
            return Counter()
        rows = self.harness.published().selectExpr("unix_millis(window_start)", "key", "n", "most").collect()
        return Counter((row[0], row[1], row[2], row[3]) for row in rows)


def count_per_window(rows: DataFrame) -> DataFrame:
    return rows.groupBy("window_start", "window_end", "key").agg(*count_and_most())


def parts(harness: Harness, slide_ms: int) -> WindowCode:
    """Return aggregates that are merged from parts."""
    return harness.windows(size_ms=4000, slide_ms=slide_ms)


def kept_rows(harness: Harness, slide_ms: int) -> WindowCode:
    """Return aggregates for which the windows store all rows."""
    most = F.max("amount").alias("most")
    return harness.windows(F.countDistinct("amount").alias("n"), most, size_ms=4000, slide_ms=slide_ms)


def function(harness: Harness, slide_ms: int) -> WindowCode:
    prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")
    return replace(parts(harness, slide_ms), plan=whole_row_state(prototype, ("key",), count_per_window))


def rows_as_they_come(harness: Harness, slide_ms: int) -> WindowCode:
    """Return aggregates that are computed from the rows after the exchange."""
    return replace(parts(harness, slide_ms), side_outputs_late_data=True)


@pytest.mark.parametrize(
    ("code", "slide_ms", "firing_mode", "parallelism"),
    [
        pytest.param(parts, 4000, FiringMode.ON_WATERMARK, 2, marks=pytest.mark.long),
        pytest.param(parts, 2000, FiringMode.ON_WATERMARK, 2, marks=pytest.mark.long),
        pytest.param(parts, 3000, FiringMode.ON_CHECKPOINT, 2, marks=pytest.mark.long),
        # A function also stores rows, and parts fire at checkpoints.
        pytest.param(kept_rows, 2000, FiringMode.ON_CHECKPOINT, 2, marks=pytest.mark.long),
        pytest.param(function, 2000, FiringMode.ON_WATERMARK, 2, marks=pytest.mark.long),
        (function, 4000, FiringMode.ON_WATERMARK, 1),
        pytest.param(rows_as_they_come, 4000, FiringMode.ON_WATERMARK, 2, marks=pytest.mark.long),
    ],
)
def test_windows_refire_for_late_keys_across_restarts_and_parallelisms(
    harness: Harness,
    code: Callable[[Harness, int], WindowCode],
    slide_ms: int,
    firing_mode: FiringMode,
    parallelism: int,
) -> None:
    job = Job(harness, replace(code(harness, slide_ms), allowed_lateness_ms=LATENESS_MS), firing_mode)

    job.process(0)
    job.advance(at_ms(5) - 1)
    job.process(1)
    job.begin(parallelism)
    job.process(2)
    job.advance(at_ms(8))
    job.process(3)
    job.begin(1)
    job.advance(at_ms(10))
    job.process(4)
    job.advance(END)

    assert any(count > 1 for count in Counter((start, key) for start, key, *_ in job.published).values())
