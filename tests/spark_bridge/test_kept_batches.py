"""Tests that results outlive their attempts: the rows stay in Spark exactly until they are released."""

from __future__ import annotations

from threading import Event, Thread

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.messages.attempt.answers import StageResult
from flykka.messages.graph.job_graph import ResultPartitionType, ShipStrategy
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS, DrivenAttempt
from tests.spark_bridge.harness import Harness, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BLOCKING = ResultPartitionType.BLOCKING


def produce_result(harness: Harness, *, number: int = 0, cancel: bool = False) -> tuple[DrivenAttempt, StageResult]:
    """Run an attempt of a source to its end, and return its result for two readers."""
    write_rows(harness.input / "0.parquet", [(key, key, 0.0) for key in range(10)])
    vertex = harness.source()
    source = harness.begin(vertex, number=number, readers=2, partition_type=BLOCKING).open()
    result = source.read(harness.splits(vertex))
    source.close(cancel=cancel)
    return source, result


def rows_read_by_subtask(
    harness: Harness, source: DrivenAttempt, result: StageResult, *, subtask: int = 0, number: int = 0
) -> int:
    vertex = harness.vertex("writer", harness.sink())
    reader = harness.begin(vertex, reads=source, subtask=subtask, number=number).open()
    rows = sum(stage.rows_in for stage in reader.run(result, subpartition=subtask))
    reader.close(cancel=True)
    return rows


def test_a_result_is_readable_repeatedly_after_its_attempt_ends(harness: Harness) -> None:
    before = harness.persisted()
    source, result = produce_result(harness)
    (partition,) = source.engine.descriptor.outputs

    first = rows_read_by_subtask(harness, source, result)
    again = rows_read_by_subtask(harness, source, result, number=1)
    other = rows_read_by_subtask(harness, source, result, subtask=1)
    kept = harness.persisted() - before
    harness.plane.release_partitions(harness.job_id, [partition.partition_id])

    assert first == again
    assert first + other == 10
    assert kept
    assert harness.persisted() <= before


@pytest.mark.parametrize(
    "strategy", [ShipStrategy.BROADCAST, pytest.param(ShipStrategy.REBALANCE, marks=pytest.mark.long)]
)
def test_batches_sent_unsplit_are_retained(harness: Harness, strategy: ShipStrategy) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0), (2, 2, 0.0)])
    vertex = harness.source()
    source = harness.begin(vertex, readers=2, strategy=strategy, partition_type=BLOCKING).open()
    result = source.read(harness.splits(vertex))
    source.close()

    rows = [
        rows_read_by_subtask(harness, source, result, subtask=subtask, number=n)
        for n in range(2)
        for subtask in range(2)
    ]

    assert rows == ([2, 2, 2, 2] if strategy is ShipStrategy.BROADCAST else [2, 0, 2, 0])


def test_a_cancelled_attempt_retains_no_batch(harness: Harness) -> None:
    before = harness.persisted()

    produce_result(harness, cancel=True)

    assert harness.persisted() <= before


def test_the_next_attempt_releases_its_predecessors_retained_batches(harness: Harness) -> None:
    _, first = produce_result(harness)
    _, second = produce_result(harness, number=1)

    held = {output.batch.batch_id for output in (*first.outputs, *second.outputs)}
    stats = harness.plane.stats()

    assert stats.batches == len(second.outputs) == len(held) // 2


def test_the_end_of_the_job_frees_retained_batches(harness: Harness) -> None:
    before = harness.persisted()
    produce_result(harness)

    harness.end()

    assert harness.persisted() <= before


def test_concurrent_ends_of_a_job_return_after_it_has_ended(harness: Harness) -> None:
    begun, may_go_on = Event(), Event()

    def block(rows: DataFrame) -> DataFrame:
        begun.set()
        assert may_go_on.wait(PATIENCE_SECONDS)
        return rows

    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    vertex = harness.source(transform(block))
    attempt = harness.begin(vertex, partition_type=BLOCKING).open()
    attempt.start_read(harness.splits(vertex))
    assert begun.wait(PATIENCE_SECONDS)
    had_ended: list[bool] = []

    def end() -> None:
        harness.end()
        had_ended.append(attempt.engine.end.wait(0))

    first, second = Thread(target=end), Thread(target=end)
    first.start()
    attempt.expect_failure()
    second.start()
    # A caller that does not wait for the other caller returns long before this timeout.
    second.join(0.5)
    may_go_on.set()
    for each in (first, second):
        each.join(PATIENCE_SECONDS)

    assert had_ended == [True, True]


def test_a_closed_data_plane_retains_no_late_batch(
    spark: SparkSession, registry: CodeRegistry, harness: Harness
) -> None:
    plane = SparkDataPlane(spark, registry)
    late = Harness(plane, registry, harness.folder)
    before = late.persisted()
    produce_result(late)

    plane.close()
    between = late.persisted()
    produce_result(late, number=1)

    assert between <= before
    assert late.persisted() <= before
    assert plane.stats().batches == 0
