"""Tests that state is in executor memory up to its attempt's managed memory, and otherwise on executor disks."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.actors.machines.state.segments import Segment
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.materialise import materialise
from flykka.spark_bridge.state.attempt_storage import ManagedMemory
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend
from tests.spark_bridge.harness import Harness
from tests.spark_bridge.state.test_spark_state_backend import backend_of

A, B = BatchId("a"), BatchId("b")


def test_counted_memory_never_exceeds_the_budget() -> None:
    memory = ManagedMemory(100)

    assert (memory.reserve(A, 60), memory.reserve(B, 60), memory.used_bytes) == (True, False, 60)
    memory.release([A, B])
    assert (memory.reserve(B, 60), memory.used_bytes) == (True, 60)


def test_a_segment_is_counted_only_once() -> None:
    memory = ManagedMemory(100)

    assert (memory.reserve(A, 60), memory.reserve(A, 30), memory.used_bytes) == (True, True, 60)


def test_without_a_budget_all_state_may_be_in_memory() -> None:
    assert ManagedMemory().reserve(A, 1 << 50)
    assert ManagedMemory().has_room_for(1 << 50)


def in_memory_and_on_disk(spark: SparkSession, segment: Segment[DataFrame] | None) -> tuple[bool, bool]:
    assert segment is not None
    rdd_id = segment.frame._jdf.queryExecution().analyzed().rdd().id()
    jvm = spark.sparkContext._jsc
    assert jvm is not None
    jvm.sc().listenerBus().waitUntilEmpty()  # Spark counts blocks when it handles events, after the job has ended.
    (info,) = (each for each in jvm.sc().getRDDStorageInfo() if each.id() == rdd_id)
    return info.memSize() > 0, info.diskSize() > 0


def begin_backend(harness: Harness, managed_memory_bytes: int) -> SparkStateBackend:
    windows = harness.vertex("windows", harness.windows(), harness.sink())
    return backend_of(harness.begin(windows, managed_memory_bytes=managed_memory_bytes).engine)


@pytest.mark.spark
@pytest.mark.slow
def test_state_beyond_the_budget_is_on_disk_until_memory_is_free(harness: Harness, spark: SparkSession) -> None:
    backend = begin_backend(harness, managed_memory_bytes=100 * 24)
    rows = harness.plane.session.range(100).selectExpr("id as __window", "id as __key_0")

    kept = [backend.keep(rows) for _ in range(3)]
    assert [in_memory_and_on_disk(spark, each) for each in kept] == [(True, False), (False, True), (False, True)]

    assert kept[0] is not None
    backend.release([kept[0].batch_id])
    assert in_memory_and_on_disk(spark, backend.keep(rows)) == (True, False)


@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_that_becomes_state_is_copied_to_disk_without_free_memory(
    harness: Harness, spark: SparkSession
) -> None:
    backend = begin_backend(harness, managed_memory_bytes=1)
    rows = harness.plane.session.range(10).selectExpr("id as __window", "id as __key_0")
    blocks = materialise(backend._scope, rows, {})
    ref = BatchRef(batch_id=BatchId("came"), rows=10, size_bytes=240)
    backend._store.put(blocks.blocks, [Batch(ref=ref, rows=blocks.frame)], producer=backend._descriptor.attempt)

    segment = backend.adopt(ref, blocks.frame, 3, 7)

    assert (segment.first_ms, segment.last_ms, segment.rows) == (3, 7, 10)
    assert in_memory_and_on_disk(spark, segment) == (False, True)
    assert backend._store.holders()[ref.batch_id] == {"in transit"}
