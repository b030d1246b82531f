"""Tests rows that are too late for their windows, and the side output that receives them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.messages.graph.job_graph import JobVertex
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.stateless import SideOutputCode
from flykka.spark_bridge.operators.window import LATE_DATA
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, time_at, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Sale = tuple[int, int, float]


@pytest.fixture
def files(harness: Harness) -> Harness:
    write_rows(harness.input / "0.parquet", [(1, 10, 0.5), (2, 20, 2.5)])
    write_rows(harness.input / "1.parquet", [(1, 11, 0.6), (1, 12, 2.7), (2, 21, 1.0), (2, 22, 3.9)])
    return harness


def windows_with_late_rows(harness: Harness, windows: WindowCode) -> JobVertex:
    """Return windows whose results are written to `output`, and whose late rows to `late`."""
    late = SinkCode(sink=FileSink.parquet(str(harness.folder / "late")))
    vertex = harness.vertex("windows", windows, harness.sink(), SideOutputCode(tag=LATE_DATA), late)
    window, results, late_rows, late_sink = vertex.operators
    return replace(
        vertex, operators=(window, results, replace(late_rows, input_operator=0), replace(late_sink, input_operator=2))
    )


def pipeline(harness: Harness, windows: WindowCode) -> tuple[DrivenAttempt, DrivenAttempt]:
    source = harness.begin(harness.source()).open()
    return source, harness.begin(windows_with_late_rows(harness, windows), reads=source).open()


def late_rows(harness: Harness) -> list[Sale]:
    rows = harness.plane.session.read.parquet(str(harness.folder / "late")).collect()
    return sorted((row.key, row.amount, (row["at"] - time_at(0).replace(tzinfo=None)).total_seconds()) for row in rows)


def rows_counted_as_late(harness: Harness, code: WindowCode) -> int:
    """Run windows to the end, with the second file after the watermark, and return the number of dropped late rows."""
    source, window = pipeline(harness, code)
    first, second = harness.splits(source.engine.descriptor.vertex)
    window.run(source.read([first]))
    (run,) = window.run(source.read([second]), watermark_ms=at_ms(2.5) - 1)
    window.snapshot(1, END)
    window.commit(1)
    return run.late_rows


@pytest.mark.parametrize("slide_ms", [pytest.param(1000, marks=pytest.mark.long), 500])
def test_late_rows_go_to_the_side_output_unchanged_and_uncounted(files: Harness, slide_ms: int) -> None:
    code = replace(files.windows(slide_ms=slide_ms), side_outputs_late_data=True)

    late = rows_counted_as_late(files, code)

    assert late == 0
    assert late_rows(files) == [(1, 11, 0.6), (2, 21, 1.0)]
    assert files.published().selectExpr("sum(n)").first() == (4 * 1000 // slide_ms,)


def test_only_rows_after_the_allowed_lateness_go_to_the_side_output(files: Harness) -> None:
    code = replace(files.windows(), side_outputs_late_data=True, allowed_lateness_ms=1000)

    late = rows_counted_as_late(files, code)

    assert late == 0
    assert late_rows(files) == [(1, 11, 0.6)]
    assert files.published().selectExpr("sum(n)").first() == (5,)


def test_late_rows_belong_to_the_checkpoint_whose_barrier_they_precede(files: Harness) -> None:
    code = replace(files.windows(), side_outputs_late_data=True)
    source, window = pipeline(files, code)
    first, second = files.splits(source.engine.descriptor.vertex)
    window.run(source.read([first]))
    state = window.snapshot(1, at_ms(2) - 1).state
    window.commit(1)
    window.run(source.read([second]), watermark_ms=at_ms(2) - 1)
    window.snapshot(2, at_ms(2) - 1)
    window.close(cancel=True)

    restored = files.begin(window.engine.descriptor.vertex, number=1, reads=source).open(state)
    restored.run(source.read([second]), watermark_ms=at_ms(2) - 1)
    restored.snapshot(2, END)
    restored.commit(2)

    assert late_rows(files) == [(1, 11, 0.6), (2, 21, 1.0)]
    assert files.published().count() == 4


# test_attempt also covers rows that were aggregated before they arrived.
@pytest.mark.long
def test_unaggregated_late_rows_without_a_side_output_are_counted(files: Harness) -> None:
    source = files.begin(files.source()).open()
    window = files.begin(files.vertex("windows", files.windows(), files.sink()), reads=source).open()
    first, second = files.splits(source.engine.descriptor.vertex)

    window.run(source.read([first]))
    (run,) = window.run(source.read([second]), watermark_ms=at_ms(2.5) - 1)
    window.snapshot(1, END)
    window.commit(1)

    assert run.late_rows == 2
    assert files.published().selectExpr("sum(n)").first() == (4,)


def test_a_row_between_two_windows_is_not_late(harness: Harness) -> None:
    write_rows(harness.input / "0.parquet", [(1, 10, 0.5), (1, 11, 1.5), (1, 12, 4.5)])
    code = replace(harness.windows(size_ms=1000, slide_ms=2000), side_outputs_late_data=True)
    source, window = pipeline(harness, code)

    window.run(source.read(harness.splits(source.engine.descriptor.vertex)), watermark_ms=at_ms(3) - 1)
    window.snapshot(1, END)
    window.commit(1)

    assert late_rows(harness) == [(1, 10, 0.5)]
    assert harness.published().selectExpr("sum(n)").first() == (1,)
