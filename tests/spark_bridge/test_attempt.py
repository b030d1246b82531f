"""Tests attempts end to end: from splits to published files, across a keyed edge."""

from __future__ import annotations

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka.messages.attempt.commands import AdvanceWatermark
from flykka.messages.graph.job_graph import FiringMode, ShipStrategy
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.aggregates import TIME
from flykka.spark_bridge.program.stored_columns import ROWS
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, time_at, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SALES = [(key, key * 10 + second, second + key / 10) for second in range(6) for key in range(4)]


@pytest.fixture
def files(harness: Harness) -> Harness:
    for number in range(3):
        write_rows(harness.input / f"{number}.parquet", [row for row in SALES if row[2] // 2 == number])
    return harness


def batch_windows(harness: Harness, *aggregates: Column) -> list[Row]:
    rows = harness.plane.session.read.parquet(str(harness.input))
    columns = aggregates or (F.count("*").alias("n"), F.max("amount").alias("most"))
    grouped = rows.groupBy(F.window("at", "1 second").alias("w"), "key").agg(*columns)
    names = grouped.columns[2:]
    return grouped.select("w.start", "w.end", "key", *names).collect()


def pipeline(harness: Harness, readers: int = 1, number: int = 0) -> tuple[DrivenAttempt, list[DrivenAttempt]]:
    windows = harness.windows()
    source = harness.begin(harness.source(LocalAggregateCode(of=windows)), readers=readers, number=number).open()
    vertex = harness.vertex("windows", windows, harness.sink(), parallelism=readers)
    behind = [harness.begin(vertex, subtask=subtask, reads=source, number=number).open() for subtask in range(readers)]
    return source, behind


@pytest.mark.parametrize("readers", [*(pytest.param(few, marks=pytest.mark.long) for few in (1, 2)), 3])
def test_published_rows_equal_the_plain_batch(files: Harness, readers: int) -> None:
    source, windows = pipeline(files, readers)

    for split in files.splits(source.engine.descriptor.vertex):
        read = source.read([split])
        for subtask, window in enumerate(windows):
            window.run(read, subpartition=subtask)
    for window in windows:
        window.snapshot(1, END)
        window.commit(1)

    assertDataFrameEqual(files.published().collect(), batch_windows(files))
    assert {column for column, _ in files.published().dtypes} == {"window_start", "window_end", "key", "n", "most"}


def test_functions_after_a_source_are_analyzed_once_for_all_attempts(harness: Harness) -> None:
    tried: list[str] = []

    def observe(rows: DataFrame) -> DataFrame:
        tried.append("probe" if rows.isStreaming else "batch")
        return rows.where("amount > 0")

    write_rows(harness.input / "0.parquet", SALES)
    vertex = harness.source(transform(observe), LocalAggregateCode(of=harness.windows()))
    first = harness.begin(vertex).open()
    first.close(cancel=True)
    second = harness.begin(vertex, number=1).open()

    second.read(harness.splits(vertex))

    assert tried == ["probe", "batch"]


def test_a_stage_reports_its_rows_and_their_lateness(files: Harness) -> None:
    source, _ = pipeline(files)

    read = source.read(files.splits(source.engine.descriptor.vertex)[:2])

    assert (read.rows_in, read.rows_out) == (16, 16)
    assert read.event_time_max == at_ms(3.3)
    (output,) = read.outputs
    assert (output.batch.event_time_min, output.batch.event_time_max) == (at_ms(0), at_ms(4) - 1)


def test_rows_of_closed_windows_are_dropped_and_counted(files: Harness) -> None:
    source, (window,) = pipeline(files)
    first, *_ = files.splits(source.engine.descriptor.vertex)

    (run,) = window.run(source.read([first]), watermark_ms=at_ms(1) - 1)
    window.snapshot(1, END)
    window.commit(1)

    assert run.late_rows == 4
    assert {row.window_start for row in files.published().collect()} == {time_at(1).replace(tzinfo=None)}


def test_no_row_is_visible_before_its_checkpoint_completes(files: Harness) -> None:
    source, (window,) = pipeline(files)
    for split in files.splits(source.engine.descriptor.vertex):
        window.run(source.read([split]))

    window.snapshot(1, at_ms(2))
    staged = list(files.output.glob("*.parquet"))
    window.commit(1)

    assert staged == []
    assert files.published().count() == 8


# Sliding windows also cover this case.
@pytest.mark.long
def test_each_window_is_published_once_across_checkpoints(files: Harness) -> None:
    source, (window,) = pipeline(files)

    for number, split in enumerate(files.splits(source.engine.descriptor.vertex), start=1):
        window.run(source.read([split]))
        window.snapshot(number, at_ms(2 * number - 1))
        window.commit(number)
    window.snapshot(4, END)
    window.commit(4)

    assertDataFrameEqual(files.published().collect(), batch_windows(files))


# Keyed rows and whole jobs also cover this.
@pytest.mark.long
def test_a_restored_attempt_continues_from_its_checkpoint(files: Harness) -> None:
    source, (window,) = pipeline(files)
    splits = files.splits(source.engine.descriptor.vertex)
    window.run(source.read([splits[0]]))
    state = window.snapshot(1, at_ms(1)).state
    window.run(source.read([splits[1]]))
    window.snapshot(2, at_ms(3))
    source.close(cancel=True)
    window.close(cancel=True)

    again = files.begin(source.engine.descriptor.vertex, number=1).open()
    restored = files.begin(window.engine.descriptor.vertex, number=1, reads=again).open(state)
    for split in splits[1:]:
        restored.run(again.read([split]))
    restored.snapshot(3, END)
    restored.commit(3)

    assertDataFrameEqual(files.published().collect(), batch_windows(files))
    files.end()
    assert not (files.output / ".flykka-staging").exists()


def test_state_of_a_completed_checkpoint_is_not_written_again(files: Harness) -> None:
    source, (window,) = pipeline(files)
    splits = files.splits(source.engine.descriptor.vertex)

    window.run(source.read([splits[0]]))
    first = window.snapshot(1)
    window.commit(1)
    second = window.snapshot(2)
    window.run(source.read([splits[1]]))
    third = window.snapshot(3)

    assert first.incremental_bytes > 0
    assert second.incremental_bytes == 0
    assert second.state.operators[0].shared == first.state.operators[0].shared
    assert third.state.operators[0].shared[:1] == first.state.operators[0].shared
    assert len(third.state.operators[0].shared) == 2


def test_state_of_an_aborted_checkpoint_is_written_again(files: Harness) -> None:
    source, (window,) = pipeline(files)
    window.run(source.read(files.splits(source.engine.descriptor.vertex)[:1]))

    aborted = window.snapshot(1)
    next_one = window.snapshot(2)

    (gone,), (written,) = aborted.state.operators[0].shared, next_one.state.operators[0].shared
    assert gone.state_id != written.state_id
    assert next_one.incremental_bytes > 0


def test_windows_with_consumers_fire_with_the_watermark(files: Harness) -> None:
    windows = files.windows()
    source = files.begin(files.source(LocalAggregateCode(of=windows))).open()
    vertex = files.vertex("windows", windows, outputs=True, firing_mode=FiringMode.ON_WATERMARK)
    window = files.begin(vertex, reads=source, strategy=ShipStrategy.FORWARD).open()
    window.run(source.read(files.splits(source.engine.descriptor.vertex)))

    window.tell(AdvanceWatermark(stage=9, watermark_ms=at_ms(2) - 1))
    fired = window.expect_result()
    window.tell(AdvanceWatermark(stage=10, watermark_ms=at_ms(2)))
    nothing = window.expect_result()

    (output,) = fired.outputs
    assert output.batch.rows == 8
    assert nothing.outputs == ()


def test_an_undecomposable_aggregate_yields_the_same_result(files: Harness) -> None:
    distinct = F.countDistinct("amount").alias("different")
    windows = files.windows(distinct, F.max("amount").alias("most"))
    source = files.begin(files.source(LocalAggregateCode(of=windows)), readers=2).open()
    vertex = files.vertex("windows", windows, files.sink(), parallelism=2)
    behind = [files.begin(vertex, subtask=subtask, reads=source).open() for subtask in range(2)]

    read = source.read(files.splits(source.engine.descriptor.vertex))
    for subtask, window in enumerate(behind):
        window.run(read, subpartition=subtask)
        window.snapshot(1, END)
        window.commit(1)

    assertDataFrameEqual(files.published().collect(), batch_windows(files, distinct, F.max("amount").alias("most")))


# Windows with a side output of late rows also cover this.
@pytest.mark.long
def test_rows_that_reach_windows_unaggregated_are_stored_as_state(files: Harness) -> None:
    windows = files.windows()
    source = files.begin(files.source(), readers=2).open()
    vertex = files.vertex("windows", windows, files.sink(), parallelism=2)
    behind = [files.begin(vertex, subtask=subtask, reads=source).open() for subtask in range(2)]

    read = source.read(files.splits(source.engine.descriptor.vertex))
    for subtask, window in enumerate(behind):
        window.run(read, subpartition=subtask)
        window.snapshot(1, END)
        window.commit(1)

    assertDataFrameEqual(files.published().collect(), batch_windows(files))


def test_many_small_batches_are_merged(files: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkStateBackend, "merge_at", 4)
    source, (window,) = pipeline(files)
    (first, *_) = files.splits(source.engine.descriptor.vertex)

    for _ in range(5):
        window.run(source.read([first]))
    held = files.plane.stats().batches
    window.snapshot(1, END)
    window.commit(1)

    assert held == 2
    assert {row.n for row in files.published().collect()} == {5}


def test_windows_before_the_epoch_equal_those_of_spark(files: Harness) -> None:
    windows = files.windows(size_ms=3000, offset_ms=700)
    times = [-6000.0, -2300.001, -2300.0, 0.0, 0.699, 0.7, 3.7]
    rows = files.plane.session.createDataFrame(
        [(seconds, 1, 1) for seconds in times], "s double, key long, amount long"
    )
    rows = rows.withColumn("at", F.timestamp_seconds("s"))

    cut = windows.local_state(rows).select((F.col(TIME) / 1000).cast("long"), F.col(ROWS)).collect()
    spark = rows.groupBy(F.window("at", "3 seconds", startTime="700 milliseconds").start.alias("w")).count()

    assert sorted(map(tuple, cut)) == sorted(map(tuple, spark.select(F.unix_millis("w"), "count").collect()))


def test_a_filter_does_not_hold_back_the_watermark(files: Harness) -> None:
    nothing = transform(lambda rows: rows.where(F.lit(False)))
    source = files.begin(files.source(nothing, files.sink())).open()

    read = source.read(files.splits(source.engine.descriptor.vertex))

    assert read.event_time_max == at_ms(5.3)
    assert read.rows_out == 0


def test_rows_written_immediately_belong_to_the_next_checkpoint(files: Harness) -> None:
    doubled = transform(lambda rows: rows.select((F.col("amount") * 2).alias("amount")))
    source = files.begin(files.source(doubled, files.sink())).open()
    splits = files.splits(source.engine.descriptor.vertex)

    source.read(splits[:1])
    source.snapshot(1)
    source.read(splits[1:])
    source.commit(1)
    first = files.published().count()
    source.snapshot(2)
    source.commit(2)

    assert first == 8
    assert sorted(row.amount for row in files.published().collect()) == sorted(2 * row[1] for row in SALES)


def test_a_job_uses_the_views_as_of_its_submission(files: Harness, spark: SparkSession) -> None:
    spark.range(2).createOrReplaceTempView("wanted_keys")
    filter_code = transform(lambda rows: rows.where("key in (select id from wanted_keys)").select("key"))
    source = files.begin(files.source(filter_code, files.sink())).open()
    try:
        for split in files.splits(source.engine.descriptor.vertex):
            source.read([split])
        source.snapshot(1)
        source.commit(1)
    finally:
        spark.catalog.dropTempView("wanted_keys")

    assert {row.key for row in files.published().collect()} == {0, 1}


def test_a_failing_function_is_reported_with_the_users_line(files: Harness) -> None:
    @F.udf("long")
    def broken(amount: int) -> int:
        raise ValueError(f"no {amount} please")

    source = files.begin(files.source(transform(lambda rows: rows.select(broken("amount"))), files.sink())).open()
    source.start_read(files.splits(source.engine.descriptor.vertex)[:1])
    failed = source.expect_failure()

    assert failed.cause.type_name == "ValueError"
    assert failed.cause.message.startswith("operator 'source-stateless-1': no ")
    assert 'raise ValueError(f"no {amount} please")' in failed.cause.message
    assert "test_attempt.py" in failed.cause.message
    assert "java" not in failed.cause.message
    assert "org.apache.spark" in failed.cause.stack_trace


@pytest.mark.parametrize("strategy", [ShipStrategy.REBALANCE, ShipStrategy.BROADCAST])
def test_batches_are_sent_to_readers_in_turn_or_to_all(files: Harness, strategy: ShipStrategy) -> None:
    source = files.begin(files.source(), readers=2, strategy=strategy).open()

    sent = [
        [output.batch.subpartition for output in source.read([split]).outputs]
        for split in files.splits(source.engine.descriptor.vertex)
    ]

    assert sent == ([[0], [1], [0]] if strategy is ShipStrategy.REBALANCE else [[0, 1]] * 3)


def test_a_cancelled_producer_releases_unread_batches(files: Harness) -> None:
    source, (window,) = pipeline(files)
    splits = files.splits(source.engine.descriptor.vertex)
    window.run(source.read([splits[0]]))
    source.read([splits[1]])

    source.close(cancel=True)

    assert files.plane.stats().batches == 1
    window.close(cancel=True)
    assert files.plane.stats().batches == 0


def test_a_finished_producers_batches_remain_until_their_reader_closes(files: Harness) -> None:
    source, (window,) = pipeline(files)
    source.read(files.splits(source.engine.descriptor.vertex)[:1])

    source.close(cancel=False)
    left = files.plane.stats().batches
    window.close(cancel=True)

    assert left == 1
    assert files.plane.stats().batches == 0
