"""Tests that batches coalesced into one stage keep all their rows, take one Spark job, and are freed."""

from __future__ import annotations

import pytest

from flykka.messages.attempt.commands import ProcessBatch
from flykka.messages.tasks.exchange import WATERMARK_MIN
from tests.spark_bridge.harness import Harness, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_all_rows_are_emitted_and_the_batches_released(harness: Harness) -> None:
    before = harness.persisted()
    for number in range(3):
        write_rows(harness.input / f"{number}.parquet", [(number, 10 * number, 0.0)])
    source_vertex = harness.source()
    source = harness.begin(source_vertex).open()
    sink = harness.begin(
        harness.vertex("sink", transform(lambda rows: rows.where("key > 0")), harness.sink()), reads=source
    ).open()
    results = [source.read([split]) for split in harness.splits(source_vertex)]
    first, *others = (output.batch for finished in results for output in finished.outputs)
    assert len(others) == 2

    sink.tell(ProcessBatch(stage=1, gate=0, batch=first, watermark_ms=WATERMARK_MIN, coalesced=tuple(others)))
    finished = sink.expect_result()
    sink.stage = 1
    sink.snapshot(1)
    files = sink.commit(1)

    assert finished.rows_in == 3
    assert sorted(row.key for row in harness.published().collect()) == [1, 2]
    assert len(files) <= harness.plane.session.sparkContext.defaultParallelism
    assert harness.persisted() <= before
