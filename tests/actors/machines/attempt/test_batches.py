"""A batch is freed when its last holder has released it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.attempt.batches import IN_TRANSIT, KEPT, Address, BatchHolders, input_addresses
from flykka.messages.graph.job_graph import OperatorKind, ResultPartitionType
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from tests.actors.machines.attempt.attempt_machine import descriptor

HERE = Address(partition=ResultPartitionId("here"), subpartition=0)
THERE = Address(partition=ResultPartitionId("there"), subpartition=0)
PRODUCER, READER = ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_1")
A = BatchId("a")


def holders_with(*names: str, address: Address = HERE, holder: str = IN_TRANSIT) -> BatchHolders[str]:
    made: BatchHolders[str] = BatchHolders()
    for name in names:
        made.put(BatchId(name), f"rows of {name}", producer=PRODUCER, address=address, holder=holder)
    return made


def test_a_batch_is_freed_by_its_last_holder() -> None:
    batches = holders_with("a")
    batches.claim(A, READER)
    batches.hold([A], f"{READER} checkpoint 1")

    still_held = batches.release([A], READER)
    gone = batches.release_held_by(f"{READER} checkpoint 1")

    assert (still_held, gone) == ({}, {A: "rows of a"})


def test_a_batch_being_read_is_not_freed_with_unread_batches() -> None:
    batches = holders_with("a")
    batches.claim(A, READER)

    assert batches.release([A]) == {}


def test_a_freed_batch_cannot_be_claimed_or_held() -> None:
    batches = holders_with("a")
    batches.release([A])

    with pytest.raises(UnknownBatchError, match="batch a was released"):
        batches.claim(A, READER)
    with pytest.raises(UnknownBatchError):
        batches.hold([A], READER)


@pytest.mark.parametrize(("is_cancelled", "left"), [(False, {"sent"}), (True, set[str]())])
def test_the_output_of_an_attempt_is_retained_unless_it_was_cancelled(is_cancelled: bool, left: set[str]) -> None:
    batches = holders_with("sent", address=THERE)

    batches.release_attempt(PRODUCER, frozenset(), is_cancelled=is_cancelled)

    assert set(batches.holders()) == left


def test_an_ending_attempt_releases_its_own_and_in_flight_batches() -> None:
    batches = holders_with("to it")
    batches.put(BatchId("its state"), "", producer=READER, holder=f"{READER} state")
    batches.put(BatchId("another's"), "", producer=READER, holder=f"{READER}0 state")

    batches.release_attempt(READER, frozenset({HERE}), is_cancelled=False)

    assert set(batches.holders()) == {"another's"}


def test_a_retained_batch_is_readable_until_its_partition_is_released() -> None:
    batches = holders_with("a", holder=KEPT)
    batches.claim(A, READER)
    batches.release([A], READER)

    of_another = batches.release_partitions(frozenset({THERE.partition}))
    gone = batches.release_partitions(frozenset({HERE.partition}))

    assert (of_another, gone) == ({}, {A: "rows of a"})


def test_batches_of_an_approximate_partition_wait_for_the_next_reader() -> None:
    reader = descriptor(OperatorKind.STATELESS, channels=2)
    (gate,) = reader.inputs
    approximate = replace(gate, consumed_partition_type=ResultPartitionType.PIPELINED_APPROXIMATE)

    bounded = input_addresses(reader)
    reconnected = input_addresses(replace(reader, inputs=(approximate,)))

    assert bounded == {
        Address(partition=channel.partition_id, subpartition=channel.subpartition) for channel in gate.channels
    }
    assert reconnected == frozenset()
