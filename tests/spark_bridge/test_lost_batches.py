"""Tests that a task fails if rows that it needs were lost with their executor, and reports which task produced them."""

from __future__ import annotations

import pytest

from flykka.messages.attempt.commands import ProcessBatch
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import WATERMARK_MIN
from tests.spark_bridge.harness import Harness, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def lose_all_rows(harness: Harness) -> None:
    """Drop all rows, as if the executors that hold them were killed."""
    rdds = harness.plane.session.sparkContext._jsc.sc().getPersistentRDDs().values().iterator()
    while rdds.hasNext():
        rdds.next().unpersist(True)


def test_reading_a_lost_batch_fails_and_names_the_result_partition(harness: Harness) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    source_vertex = harness.source()
    # Few rows of a pipelined partition are in the driver, where they cannot be lost.
    source = harness.begin(source_vertex, partition_type=ResultPartitionType.BLOCKING).open()
    reader = harness.begin(harness.vertex("windows", harness.windows(), harness.sink()), reads=source).open()
    (output,) = source.read(harness.splits(source_vertex)).outputs

    lose_all_rows(harness)
    reader.tell(ProcessBatch(stage=1, gate=0, batch=output.batch, watermark_ms=WATERMARK_MIN))
    failed = reader.expect_failure()

    (partition,) = source.engine.descriptor.outputs
    assert failed.cause.type_name == "LostBatchError"
    assert failed.cause.lost_partition == partition.partition_id
    assert failed.cause.message.endswith(
        f"are lost with the executor that stored them (result partition {partition.partition_id})"
    )
    assert not failed.cause.suppress_restarts


def test_an_attempt_with_lost_state_fails_instead_of_declining_its_checkpoint(harness: Harness) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    source_vertex = harness.source()
    source = harness.begin(source_vertex).open()
    windows = harness.begin(harness.vertex("windows", harness.windows(), harness.sink()), reads=source).open()
    windows.run(source.read(harness.splits(source_vertex)))

    lose_all_rows(harness)
    windows.start_snapshot(1)
    failed = windows.expect_failure()

    assert failed.cause.type_name == "LostBatchError"
    assert failed.cause.lost_partition is None
