"""Tests the batch store: which holders a batch has, and when the batch's blocks are freed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.attempt.batches import IN_TRANSIT, KEPT, Address
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from flykka.spark_bridge.rows.batches import Batch, BatchStore
from flykka.spark_bridge.rows.materialise import Blocks
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS

pytestmark = pytest.mark.spark

PRODUCER = ExecutionAttemptId("job_source_0_1")
READER = "job_window_0_1"
HERE = Address(partition=ResultPartitionId("p"), subpartition=0)
THERE = Address(partition=ResultPartitionId("p"), subpartition=1)


class Store:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.store = BatchStore()

    def put(
        self, *names: str, address: Address | None = HERE, holder: str = IN_TRANSIT, producer: str = PRODUCER
    ) -> Blocks:
        blocks = Blocks(self.spark.range(1).localCheckpoint(), self.spark)
        refs = [BatchRef(batch_id=BatchId(name), rows=1, size_bytes=8) for name in names]
        batches = [Batch(ref=ref, rows=blocks.frame, address=address, holder=holder) for ref in refs]
        self.store.put(blocks, batches, producer=ExecutionAttemptId(producer))
        return blocks

    def holds(self, blocks: Blocks) -> bool:
        return blocks.rdd_id in dict(self.spark.sparkContext._jsc.getPersistentRDDs())


@pytest.fixture
def store(spark: SparkSession) -> Store:
    return Store(spark)


def test_a_batch_is_freed_when_its_reader_has_finished(store: Store) -> None:
    blocks = store.put("a")
    name = BatchId("a")

    frame = store.store.claim(name, READER)
    assert isinstance(frame, DataFrame)
    rows = frame.count()
    store.store.release([name])
    before = store.holds(blocks)
    store.store.release([name], READER)

    assert rows == 1
    assert before
    assert not store.holds(blocks)
    assert store.store.stats().materialisations == 0


def test_a_batch_held_by_state_outlives_its_reader(store: Store) -> None:
    blocks = store.put("a")
    store.store.claim(BatchId("a"), READER)
    store.store.hold([BatchId("a")], f"{READER} state")
    store.store.hold([BatchId("a")], f"{READER} snapshot 1")

    store.store.release([BatchId("a")], READER)
    store.store.release([BatchId("a")], f"{READER} state")
    before = store.holds(blocks)
    store.store.release([BatchId("a")], f"{READER} snapshot 1")

    assert before
    assert not store.holds(blocks)


def test_slices_share_blocks_until_the_last_is_released(store: Store) -> None:
    blocks = store.put("a", "b")

    store.store.release([BatchId("a")])
    before = store.holds(blocks)
    store.store.release([BatchId("b")])

    assert before
    assert not store.holds(blocks)


def test_blocks_without_a_batch_are_freed_at_once(store: Store) -> None:
    assert not store.holds(store.put())


def test_a_closing_reader_releases_its_in_flight_batches(store: Store) -> None:
    store.put("mine")
    store.put("another's", address=THERE)

    store.store.release_attempt(ExecutionAttemptId("reader"), frozenset({HERE}), is_cancelled=False)

    assert set(store.store.holders()) == {"another's"}
    store.store.close()


def test_a_cancelled_producer_releases_only_batches_without_a_reader(store: Store) -> None:
    store.put("taken")
    store.put("waiting")
    store.store.claim(BatchId("taken"), READER)

    store.store.release_produced(PRODUCER)

    assert set(store.store.holders()) == {"taken"}
    store.store.close()


def test_an_attempt_releases_exactly_the_batches_it_holds(store: Store) -> None:
    store.put("state", holder="job_window_0_1 state")
    store.put("other", holder="job_window_0_10 state")

    store.store.release_attempt(ExecutionAttemptId("job_window_0_1"), frozenset(), is_cancelled=True)

    assert set(store.store.holders()) == {"other"}
    store.store.close()


def test_the_end_of_a_job_frees_all_its_batches(store: Store) -> None:
    blocks = [store.put("a"), store.put("b", holder="somebody")]

    before = store.store.stats().rows
    store.store.close()

    assert before == 2
    assert not any(store.holds(each) for each in blocks)


def test_an_error_names_a_released_batch(store: Store) -> None:
    store.put("a")
    store.store.release([BatchId("a")])

    with pytest.raises(UnknownBatchError, match="batch a was released"):
        store.store.claim(BatchId("a"), READER)


def test_a_retained_batch_is_readable_until_its_partition_is_released(store: Store) -> None:
    blocks = store.put("a", holder=KEPT)
    for reader in (READER, "job_window_0_2"):
        store.store.claim(BatchId("a"), reader)
        store.store.release([BatchId("a")])
        store.store.release([BatchId("a")], reader)
    store.store.release_attempt(ExecutionAttemptId("reader"), frozenset({HERE}), is_cancelled=False)
    before = store.holds(blocks)

    store.store.release_partitions(frozenset({ResultPartitionId("another")}))
    store.store.release_partitions(frozenset({HERE.partition}))

    assert before
    assert not store.holds(blocks)


def test_a_reader_of_a_released_partition_keeps_its_claimed_batches(store: Store) -> None:
    blocks = store.put("a", holder=KEPT)
    store.store.claim(BatchId("a"), READER)

    store.store.release_partitions(frozenset({HERE.partition}))
    before = store.holds(blocks)
    store.store.release([BatchId("a")], READER)

    assert before
    assert not store.holds(blocks)


def test_a_cancelled_producer_retains_no_batch(store: Store) -> None:
    blocks = store.put("a", holder=KEPT)

    store.store.release_produced(PRODUCER)

    assert not store.holds(blocks)


class SlowBlocks(Blocks):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark.range(1).localCheckpoint(), spark)
        self.begun, self.may_go_on = Event(), Event()

    def free(self) -> None:
        self.begun.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        super().free()


@pytest.mark.parametrize(
    "free", [BatchStore.close, lambda store: store.release([BatchId("a")])], ids=["end", "release"]
)
def test_ending_a_job_returns_after_concurrent_frees(
    store: Store, spark: SparkSession, free: Callable[[BatchStore], None]
) -> None:
    blocks = SlowBlocks(spark)
    ref = BatchRef(batch_id=BatchId("a"), rows=1, size_bytes=8)
    store.store.put(blocks, [Batch(ref=ref, rows=blocks.frame, address=HERE)], producer=PRODUCER)
    freeing = Thread(target=free, args=(store.store,))
    freeing.start()
    assert blocks.begun.wait(PATIENCE_SECONDS)
    held_at_the_end: list[bool] = []

    def end() -> None:
        store.store.close()
        held_at_the_end.append(store.holds(blocks))

    ending = Thread(target=end)
    ending.start()
    # A caller that does not wait for the other caller returns long before this timeout.
    ending.join(0.5)
    blocks.may_go_on.set()
    for each in (freeing, ending):
        each.join(PATIENCE_SECONDS)

    assert held_at_the_end == [False]


def test_a_batch_added_after_the_jobs_end_is_freed_at_once(store: Store) -> None:
    store.store.close()

    blocks = store.put("late", holder=KEPT)

    assert not store.holds(blocks)
    assert store.store.stats().batches == 0
    with pytest.raises(UnknownBatchError):
        store.store.claim(BatchId("late"), READER)
