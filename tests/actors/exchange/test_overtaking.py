"""Barriers in a subpartition: what went before one, and what it has overtaken, is all that was added before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.exchange.alignment import is_unaligned
from flykka.actors.exchange.subpartition import PipelinedSubpartition
from flykka.messages.batch import BatchRef
from flykka.messages.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.exchange import CheckpointBarrier
from tests.actors.exchange.builders import batch, partition_id

ALIGNED = CheckpointOptions(aligned_timeout_ms=10)
UNALIGNED = CheckpointOptions(alignment=AlignmentType.UNALIGNED)


def barrier(checkpoint_id: int, options: CheckpointOptions) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0, options=options)


def test_a_barrier_whose_time_is_over_is_read_first_and_has_overtaken_what_was_before_it() -> None:
    subpartition = PipelinedSubpartition(partition_id(), 0)
    subpartition.create_view()
    for buffer in (batch("a"), batch("b"), barrier(1, ALIGNED), batch("c")):
        subpartition.add(buffer)

    held = subpartition.holds_barrier(1)
    wakes, overtaken = subpartition.prioritize_barrier(1)
    subpartition.flush()
    read = [taken.buffer for taken in iter(subpartition.poll, None)]

    assert held
    assert wakes
    assert overtaken == (batch("a"), batch("b"))
    assert is_unaligned(read[0])
    assert read[1:] == [batch("a"), batch("b"), batch("c")]
    assert not subpartition.holds_barrier(1)


@given(moves=st.lists(st.sampled_from(["batch", "aligned", "unaligned", "read", "time out"]), max_size=30))
def test_every_batch_before_a_barrier_was_sent_before_it_or_overtaken_once(moves: list[str]) -> None:
    subpartition = PipelinedSubpartition(partition_id(), 0)
    subpartition.create_view()
    added: list[BatchRef] = []
    sent: list[BatchRef] = []
    before: dict[int, list[BatchRef]] = {}
    overtaken: dict[int, tuple[BatchRef, ...]] = {}

    for number, move in enumerate([*moves, *["read"] * len(moves)]):
        waiting = [checkpoint_id for checkpoint_id in before if subpartition.holds_barrier(checkpoint_id)]
        match move:
            case "batch":
                added.append(batch(f"b{number}"))
                subpartition.add(added[-1])
            case "aligned":
                before[number] = list(added)
                subpartition.add(barrier(number, ALIGNED))
            case "unaligned":
                before[number] = list(added)
                _, overtaken[number] = subpartition.add_priority(barrier(number, UNALIGNED))
            case "time out" if waiting and waiting[-1] not in overtaken:
                _, overtaken[waiting[-1]] = subpartition.prioritize_barrier(waiting[-1])
            case "read":
                subpartition.flush()
                taken = subpartition.poll()
                if taken is not None and isinstance(taken.buffer, BatchRef):
                    sent.append(taken.buffer)
                elif taken is not None and isinstance(taken.buffer, CheckpointBarrier):
                    checkpoint_id = taken.buffer.checkpoint_id
                    assert [*sent, *overtaken.get(checkpoint_id, ())] == before[checkpoint_id]
        subpartition.check()

    assert sent == added
