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
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import Harness, at_ms, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def write_files_of_one_row(harness: Harness, files: int = 3) -> None:
    for number in range(files):
        write_rows(harness.input / f"{number}.parquet", [(number, 10 * number, number)])


def open_source(
    harness: Harness, name: str = "source", strategy: ShipStrategy = ShipStrategy.REBALANCE
) -> DrivenAttempt:
    vertex = harness.source(name=name, per_batch=None)
    return harness.begin(vertex, strategy=strategy).open()


def read_all(harness: Harness, attempt: DrivenAttempt) -> StageResult:
    return attempt.read(harness.splits(attempt.engine.descriptor.vertex))


def open_sink(harness: Harness, reads: DrivenAttempt) -> DrivenAttempt:
    columns = ("key", "amount", F.input_file_name().alias("file"))
    codes = transform(lambda rows: rows.select(*columns).where("key > 0")), harness.sink()
    return harness.begin(harness.vertex("sink", *codes), reads=reads).open()


def batch_of(finished: StageResult) -> BatchRef:
    (output,) = finished.outputs
    return output.batch


def jobs(harness: Harness) -> int:
    return int(harness.plane.session.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_lazy_source_stage_runs_no_spark_job_and_reports_file_statistics(harness: Harness) -> None:
    write_files_of_one_row(harness)
    attempt = open_source(harness)
    before, held = jobs(harness), harness.persisted()

    finished = read_all(harness, attempt)

    assert jobs(harness) == before
    assert harness.persisted() <= held
    assert (finished.rows_in, finished.rows_out, finished.event_time_max) == (3, 3, at_ms(2))
    assert (batch_of(finished).rows, batch_of(finished).event_time_max) == (3, at_ms(2))


def test_one_stage_reads_lazy_batches_of_two_sources_with_every_row_once(harness: Harness) -> None:
    write_files_of_one_row(harness)
    first, second = open_source(harness, "first"), open_source(harness, "second")
    results = [first.read([split]) for split in harness.splits(first.engine.descriptor.vertex)]
    results.append(read_all(harness, second))
    reader = open_sink(harness, first)
    batch, *others = map(batch_of, results)

    reader.tell(ProcessBatch(stage=1, gate=0, batch=batch, watermark_ms=WATERMARK_MIN, coalesced=tuple(others)))
    finished = reader.expect_result()
    reader.stage = 1
    reader.snapshot(1)
    reader.commit(1)

    assert finished.rows_in == 6
    assert sorted((row.key, row.amount) for row in harness.published().collect()) == [(1, 10)] * 2 + [(2, 20)] * 2


def test_batches_keep_their_order_if_some_are_already_read() -> None:
    def unread(*names: str) -> LazyRows:
        return LazyRows(uid="source", splits=names, read=tuple, rows=1, size_bytes=1, event_time_max=None)  # type: ignore[arg-type]

    slices = slices_of([unread("a"), unread("b"), "read", unread("c")])  # type: ignore[list-item]

    assert list(slices) == [("source", ("a", "b")), (None, ("read",)), ("source", ("c",))]


def test_rows_that_become_state_are_read_by_the_source(harness: Harness) -> None:
    write_files_of_one_row(harness)
    attempt = open_source(harness, strategy=ShipStrategy.HASH)
    before = jobs(harness)

    read_all(harness, attempt)

    assert jobs(harness) > before


def test_many_files_are_read_by_the_source(harness: Harness) -> None:
    write_files_of_one_row(harness, files=36)
    attempt = open_source(harness)
    before = jobs(harness)

    read_all(harness, attempt)

    assert jobs(harness) > before


def test_lazy_rows_can_be_disabled(harness: Harness) -> None:
    write_files_of_one_row(harness)
    session = harness.plane.sessions.current.newSession()
    session.conf.set(LAZY_READING, "false")
    registry = CodeRegistry()
    plain = Harness(SparkDataPlane(session, registry), registry, harness.folder)
    try:
        attempt = open_source(plain)
        before = jobs(plain)

        read_all(plain, attempt)

        assert jobs(plain) > before
    finally:
        plain.end()


def test_an_unreadable_file_is_reported_with_its_source(harness: Harness) -> None:
    write_files_of_one_row(harness)
    attempt = open_source(harness)
    finished = read_all(harness, attempt)
    reader = open_sink(harness, attempt)
    damaged = harness.input / "1.parquet"
    content = damaged.read_bytes()
    damaged.write_bytes(b"x" * len(content))

    reader.tell(ProcessBatch(stage=1, gate=0, batch=batch_of(finished), watermark_ms=WATERMARK_MIN))
    failed = reader.expect_failure()

    assert failed.cause.type_name == "UnreadableFileError"
    assert "operator 'source-source-0'" in failed.cause.message
    assert f"cannot read {damaged}: " in failed.cause.message


def test_in_flight_lazy_batches_are_written_for_an_unaligned_checkpoint(harness: Harness, tmp_path: Path) -> None:
    write_files_of_one_row(harness)
    attempt = open_source(harness)
    batch = batch_of(read_all(harness, attempt))
    reader = open_sink(harness, attempt)

    reader.tell(HoldBatches(checkpoint_id=1, batch_ids=(batch.batch_id,), holder="checkpoint 1"))
    reader.expect(WorkDone)
    part = ChannelStatePart(path=f"{harness.folder}/checkpoints/job/in-flight/batch", batches=(batch,), gate=0)
    reader.tell(WriteChannelState(checkpoint_id=1, parts=(part,)))

    (handle,) = reader.expect(ChannelStateWritten).folders
    assert sorted(row.key for row in harness.plane.session.read.parquet(handle.path).collect()) == [0, 1, 2]
