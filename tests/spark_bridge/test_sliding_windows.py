"""Tests sliding windows through attempts: they publish what a plain batch computes, however the job ran."""

from __future__ import annotations

import pytest
from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka.messages.attempt.commands import AdvanceWatermark
from flykka.messages.graph.job_graph import FiringMode, ShipStrategy
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, count_and_most, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SALES = [(key, key * 10 + second, second + key / 10) for second in range(12) for key in range(3)]
# The second case has a window size that is not a multiple of the slide, and an offset.
SIZES = [pytest.param(4000, 2000, 0, marks=pytest.mark.long), (5000, 3000, 700)]


@pytest.fixture
def files(harness: Harness) -> Harness:
    for number in range(3):
        write_rows(harness.input / f"{number}.parquet", [row for row in SALES if row[2] // 4 == number])
    return harness


def batch_windows(harness: Harness, windows: WindowCode, *aggregates: Column) -> list[Row]:
    cut = windows.windows
    size, slide, offset = (f"{ms} milliseconds" for ms in (cut.size_ms, cut.slide_ms, cut.offset_ms))
    rows = harness.plane.session.read.parquet(str(harness.input))
    grouped = rows.groupBy(F.window("at", size, slide, offset).alias("w"), "key").agg(*(aggregates or count_and_most()))
    return grouped.select("w.start", "w.end", *grouped.columns[1:]).collect()


def pipeline(
    harness: Harness, windows: WindowCode, *, readers: int = 1, number: int = 0
) -> tuple[DrivenAttempt, list[DrivenAttempt]]:
    """Create a source that aggregates by pane, and the windows after it that write, without opening them."""
    source = harness.begin(harness.source(LocalAggregateCode(of=windows)), readers=readers, number=number)
    vertex = harness.vertex("windows", windows, harness.sink(), parallelism=readers)
    return source, [harness.begin(vertex, subtask=subtask, reads=source, number=number) for subtask in range(readers)]


def distinct() -> Column:
    return F.countDistinct("amount").alias("different")


@pytest.mark.parametrize(("size_ms", "slide_ms", "offset_ms"), SIZES)
def test_windows_fired_at_several_checkpoints_equal_the_batch(
    files: Harness, size_ms: int, slide_ms: int, offset_ms: int
) -> None:
    code = files.windows(size_ms=size_ms, slide_ms=slide_ms, offset_ms=offset_ms)
    source, windows = pipeline(files, code)
    source.open()
    for window in windows:
        window.open()

    for number, split in enumerate(files.splits(source.engine.descriptor.vertex), start=1):
        read = source.read([split])
        for subtask, window in enumerate(windows):
            window.run(read, subpartition=subtask)
            window.snapshot(number, at_ms(4 * number) - 1)
            window.commit(number)
    for window in windows:
        window.snapshot(9, END)
        window.commit(9)

    assertDataFrameEqual(files.published().collect(), batch_windows(files, code))


# A test of tumbling windows also covers this.
@pytest.mark.long
@pytest.mark.parametrize("keeps_rows", [False, True])
def test_an_attempt_restored_between_a_rows_windows_continues(files: Harness, keeps_rows: bool) -> None:
    aggregates = (distinct(),) if keeps_rows else ()
    code = files.windows(*aggregates, size_ms=5000, slide_ms=3000, offset_ms=700)
    source, (window,) = pipeline(files, code)
    splits = files.splits(source.open().engine.descriptor.vertex)
    window.open().run(source.read(splits[:2]))
    state = window.snapshot(1, at_ms(8) - 1).state
    window.commit(1)
    window.run(source.read(splits[2:]))
    window.snapshot(2, at_ms(10) - 1)
    source.close(cancel=True)
    window.close(cancel=True)

    again, (restored,) = pipeline(files, code, number=1)
    again.open()
    restored.open(state).run(again.read(splits[2:]))
    restored.snapshot(3, END)
    restored.commit(3)

    assertDataFrameEqual(files.published().collect(), batch_windows(files, code, *aggregates))


def test_each_window_fires_once_with_the_watermark(files: Harness) -> None:
    code = files.windows(size_ms=4000, slide_ms=2000)
    source = files.begin(files.source(LocalAggregateCode(of=code))).open()
    vertex = files.vertex("windows", code, outputs=True, firing_mode=FiringMode.ON_WATERMARK)
    window = files.begin(vertex, reads=source, strategy=ShipStrategy.FORWARD).open()
    window.run(source.read(files.splits(source.engine.descriptor.vertex)))

    fired = []
    for stage, seconds in enumerate((2, 3, 8, None), start=9):
        watermark_ms = END if seconds is None else at_ms(seconds) - 1
        window.tell(AdvanceWatermark(stage=stage, watermark_ms=watermark_ms))
        fired.append(sum(output.batch.rows for output in window.expect_result().outputs))

    # Three keys fire in each window: the windows that start at -2; none; 0, 2 and 4; 6, 8 and 10.
    assert fired == [3, 0, 9, 9]
    assert sum(fired) == len(batch_windows(files, code))
    assert files.plane.stats().batches == len([each for each in fired if each])


def test_a_row_is_late_only_after_its_last_window_closed(harness: Harness) -> None:
    write_rows(harness.input / "0.parquet", [(1, 0, 3.0)])
    write_rows(harness.input / "1.parquet", [(1, 1, 3.5), (1, 2, 1.5), (1, 3, 1.9), (1, 4, 4.5)])
    code = harness.windows(size_ms=4000, slide_ms=2000)
    source, (window,) = pipeline(harness, code)
    first, second = harness.splits(source.open().engine.descriptor.vertex)

    window.open().run(source.read([first]))
    (run,) = window.run(source.read([second]), watermark_ms=at_ms(4) - 1)
    window.snapshot(1, END)
    window.commit(1)

    # The window from 0 was closed when 3.5 arrived, although it had not fired. Only the window from 2 counts the row.
    published = {(row.window_start.second, row.n) for row in harness.published().collect()}
    assert run.late_rows == 2
    assert published == {(0, 1), (2, 3), (4, 1)}


def test_merged_small_batches_keep_the_lateness_of_their_arrival(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkStateBackend, "merge_at", 4)
    write_rows(harness.input / "0.parquet", [(1, 0, 3.0), (1, 1, 5.0)])
    code = harness.windows(size_ms=4000, slide_ms=2000)
    source, (window,) = pipeline(harness, code)
    (split,) = harness.splits(source.open().engine.descriptor.vertex)
    window.open()

    for number in range(8):
        window.run(source.read([split]), watermark_ms=WATERMARK_MIN if number < 3 else at_ms(4) - 1)
    held = harness.plane.stats().batches
    window.snapshot(1, END)
    window.commit(1)

    published = {(row.window_start.second, row.n) for row in harness.published().collect()}
    assert held == 5
    assert published == {(0, 3), (2, 16), (4, 8)}
