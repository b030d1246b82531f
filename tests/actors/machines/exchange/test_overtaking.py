"""Barriers in a subpartition: the buffers sent before a barrier plus the overtaken buffers are all buffers added before
the barrier.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.exchange.result_partition import Subpartition
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import BatchRef, Buffer, CheckpointBarrier
from tests.actors.machines.exchange.builders import CONSUMER, batch_ref, buffers_sent, partition_id

ALIGNED = CheckpointOptions(aligned_timeout_ms=10)
UNALIGNED = CheckpointOptions(alignment=AlignmentType.UNALIGNED)


def barrier(checkpoint_id: int, options: CheckpointOptions) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0, options=options)


def serve_credit(subpartition: Subpartition, credit: int = 1) -> list[Buffer]:
    subpartition.credit += credit
    return buffers_sent(subpartition.serve())


def test_a_timed_out_barrier_is_read_first_and_overtakes_earlier_buffers() -> None:
    subpartition = Subpartition(
        partition_id(), 0, (batch_ref("a"), batch_ref("b"), barrier(1, ALIGNED), batch_ref("c"))
    )
    subpartition.request(CONSUMER, 0)

    held = subpartition.holds_barrier(1)
    overtaken = subpartition.prioritize_barrier(1)
    taken = serve_credit(subpartition, credit=9)

    assert held
    assert overtaken == (batch_ref("a"), batch_ref("b"))
    assert isinstance(taken[0], CheckpointBarrier)
    assert taken[0].is_unaligned
    assert taken[1:] == [batch_ref("a"), batch_ref("b"), batch_ref("c")]
    assert not subpartition.holds_barrier(1)


@given(moves=st.lists(st.sampled_from(["batch", "aligned", "unaligned", "read", "time out"]), max_size=30))
def test_every_batch_before_a_barrier_is_either_sent_or_overtaken_once(moves: list[str]) -> None:
    subpartition = Subpartition(partition_id(), 0)
    subpartition.request(CONSUMER, 0)
    added: list[BatchRef] = []
    taken: list[BatchRef] = []
    before: dict[int, list[BatchRef]] = {}
    overtaken: dict[int, tuple[BatchRef, ...]] = {}

    for number, move in enumerate([*moves, *["read"] * len(moves)]):
        waiting = [checkpoint_id for checkpoint_id in before if subpartition.holds_barrier(checkpoint_id)]
        match move:
            case "batch":
                added.append(batch_ref(f"b{number}"))
                subpartition.add(added[-1])
            case "aligned":
                before[number] = list(added)
                subpartition.add(barrier(number, ALIGNED))
            case "unaligned":
                before[number] = list(added)
                overtaken[number] = subpartition.add_priority(barrier(number, UNALIGNED))
            case "time out" if waiting and waiting[-1] not in overtaken:
                overtaken[waiting[-1]] = subpartition.prioritize_barrier(waiting[-1])
        for buffer in serve_credit(subpartition, credit=move == "read"):
            if isinstance(buffer, BatchRef):
                taken.append(buffer)
            elif isinstance(buffer, CheckpointBarrier):
                assert [*taken, *overtaken.get(buffer.checkpoint_id, ())] == before[buffer.checkpoint_id]
        subpartition.check()

    assert taken == added
