"""Tests that a source forwards a few small files unread, and that the stage that receives them reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from flykka.messages.attempt.answers import ChannelStateWritten, StageResult, WorkDone
from flykka.messages.attempt.commands import ChannelStatePart, HoldBatches, ProcessBatch, WriteChannelState
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.messages.tasks.exchange import WATERMARK_MIN, BatchRef
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.rows.batches import LazyRows, slices_of
from flykka.spark_bridge.session.fast_paths import LAZY_READING
from tests.spark_bridge.laboratory import Laboratory, at_ms, transform, write_rows
from tests.spark_bridge.told import Told

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def write_files_of_one_row(laboratory: Laboratory, files: int = 3) -> None:
    for number in range(files):
        write_rows(laboratory.input / f"{number}.parquet", [(number, 10 * number, number)])


def open_source(laboratory: Laboratory, name: str = "source", strategy: ShipStrategy = ShipStrategy.REBALANCE) -> Told:
    """Open a source that feeds another task."""
    vertex = laboratory.source(name=name, per_batch=None)
    return laboratory.begin(vertex, strategy=strategy).open()


def read_all(laboratory: Laboratory, told: Told) -> StageResult:
    return told.read(laboratory.splits(told.engine.descriptor.vertex))


def open_sink(laboratory: Laboratory, reads: Told) -> Told:
    columns = ("key", "amount", F.input_file_name().alias("file"))
    codes = transform(lambda rows: rows.select(*columns).where("key > 0")), laboratory.sink()
    return laboratory.begin(laboratory.vertex("sink", *codes), reads=reads).open()


def batch_of(finished: StageResult) -> BatchRef:
    (output,) = finished.outputs
    return output.batch


def jobs(laboratory: Laboratory) -> int:
    """Return the number of Spark jobs so far."""
    return int(laboratory.plane.session.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_lazy_source_stage_runs_no_spark_job_and_reports_file_statistics(laboratory: Laboratory) -> None:
    write_files_of_one_row(laboratory)
    told = open_source(laboratory)
    before, held = jobs(laboratory), laboratory.persisted()

    finished = read_all(laboratory, told)

    assert jobs(laboratory) == before
    assert laboratory.persisted() <= held
    assert (finished.rows_in, finished.rows_out, finished.event_time_max) == (3, 3, at_ms(2))
    assert (batch_of(finished).rows, batch_of(finished).event_time_max) == (3, at_ms(2))


def test_one_stage_reads_batches_of_two_sources_with_every_row_once(laboratory: Laboratory) -> None:
    write_files_of_one_row(laboratory)
    first, second = open_source(laboratory, "first"), open_source(laboratory, "second")
    made = [first.read([split]) for split in laboratory.splits(first.engine.descriptor.vertex)]
    made.append(read_all(laboratory, second))
    reader = open_sink(laboratory, first)
    batch, *others = map(batch_of, made)

    reader.tell(ProcessBatch(stage=1, gate=0, batch=batch, watermark_ms=WATERMARK_MIN, coalesced=tuple(others)))
    finished = reader.expect_result()
    reader.stage = 1
    reader.snapshot(1)
    reader.commit(1)

    assert finished.rows_in == 6
    assert sorted((row.key, row.amount) for row in laboratory.published().collect()) == [(1, 10)] * 2 + [(2, 20)] * 2


def test_batches_keep_their_order_if_some_are_already_read() -> None:
    def unread(*names: str) -> LazyRows:
        return LazyRows(uid="source", splits=names, read=tuple, rows=1, size_bytes=1, event_time_max=None)  # type: ignore[arg-type]

    slices = slices_of([unread("a"), unread("b"), "read", unread("c")])  # type: ignore[list-item]

    assert list(slices) == [("source", ("a", "b")), (None, ("read",)), ("source", ("c",))]


def test_rows_that_become_state_are_read_by_the_source(laboratory: Laboratory) -> None:
    write_files_of_one_row(laboratory)
    told = open_source(laboratory, strategy=ShipStrategy.HASH)
    before = jobs(laboratory)

    read_all(laboratory, told)

    assert jobs(laboratory) > before


def test_many_files_are_read_by_the_source(laboratory: Laboratory) -> None:
    write_files_of_one_row(laboratory, files=36)
    told = open_source(laboratory)
    before = jobs(laboratory)

    read_all(laboratory, told)

    assert jobs(laboratory) > before


def test_a_setting_turns_lazy_rows_off(laboratory: Laboratory) -> None:
    write_files_of_one_row(laboratory)
    session = laboratory.plane.sessions.current.newSession()
    session.conf.set(LAZY_READING, "false")
    registry = CodeRegistry()
    plain = Laboratory(SparkDataPlane(session, registry), registry, laboratory.folder)
    try:
        told = open_source(plain)
        before = jobs(plain)

        read_all(plain, told)

        assert jobs(plain) > before
    finally:
        plain.end()


def test_an_unreadable_file_is_reported_with_its_source(laboratory: Laboratory) -> None:
    write_files_of_one_row(laboratory)
    told = open_source(laboratory)
    finished = read_all(laboratory, told)
    reader = open_sink(laboratory, told)
    damaged = laboratory.input / "1.parquet"
    content = damaged.read_bytes()
    damaged.write_bytes(b"x" * len(content))

    reader.tell(ProcessBatch(stage=1, gate=0, batch=batch_of(finished), watermark_ms=WATERMARK_MIN))
    failed = reader.expect_failure()

    assert failed.cause.type_name == "UnreadableFileError"
    assert "operator 'source-source-0'" in failed.cause.message
    assert f"cannot read {damaged}: " in failed.cause.message


def test_in_flight_lazy_batches_are_written_for_an_unaligned_checkpoint(laboratory: Laboratory, tmp_path: Path) -> None:
    write_files_of_one_row(laboratory)
    told = open_source(laboratory)
    batch = batch_of(read_all(laboratory, told))
    reader = open_sink(laboratory, told)

    reader.tell(HoldBatches(checkpoint_id=1, batch_ids=(batch.batch_id,), holder="checkpoint 1"))
    reader.expect(WorkDone)
    part = ChannelStatePart(path=f"{laboratory.folder}/checkpoints/job/in-flight/batch", batches=(batch,), gate=0)
    reader.tell(WriteChannelState(checkpoint_id=1, parts=(part,)))

    (handle,) = reader.expect(ChannelStateWritten).folders
    assert sorted(row.key for row in laboratory.plane.session.read.parquet(handle.path).collect()) == [0, 1, 2]
