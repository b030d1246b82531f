"""A subpartition sends messages to its reader in order, and drops data that no reader will request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.exchange.result_partition import Subpartition
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import Buffer, CheckpointBarrier, EndOfPartition, Watermark
from tests.actors.machines.exchange.builders import CONSUMER, batch_ref, buffers_sent, partition_id

A, B, C = batch_ref("a"), batch_ref("b"), batch_ref("c")
EVENT = Watermark(timestamp_ms=1)
BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
UNALIGNED = replace(BARRIER, options=CheckpointOptions(alignment=AlignmentType.UNALIGNED))
PLENTY = 1_000


def holding(*buffers: Buffer) -> Subpartition:
    return Subpartition(partition_id(), 0, buffers)


def serve_consumer(subpartition: Subpartition, credit: int = PLENTY) -> list[Buffer]:
    if subpartition.consumer is None:
        subpartition.request(CONSUMER, 0)
    subpartition.credit += credit
    return buffers_sent(subpartition.serve())


def test_without_credit_events_are_sent_and_data_is_not() -> None:
    assert serve_consumer(holding(A), credit=0) == []
    assert serve_consumer(holding(EVENT), credit=0) == [EVENT]
    assert serve_consumer(holding(EVENT, A, EVENT), credit=0) == [EVENT]


def test_an_unaligned_barrier_overtakes_queued_buffers_and_lists_their_data() -> None:
    subpartition = holding(A, EVENT, B)

    overtaken = subpartition.add_priority(UNALIGNED)

    assert overtaken == (A, B)
    assert serve_consumer(subpartition) == [UNALIGNED, A, EVENT, B]


def test_priority_events_do_not_overtake_each_other() -> None:
    subpartition = holding(A)
    later = replace(UNALIGNED, checkpoint_id=2)

    subpartition.add_priority(UNALIGNED)
    subpartition.add_priority(later)

    assert serve_consumer(subpartition) == [UNALIGNED, later, A]


def test_a_subpartition_accepts_only_one_reader() -> None:
    subpartition = holding()
    subpartition.request(CONSUMER, 1)

    with pytest.raises(AssertionError, match="already has a reader"):
        subpartition.request(CONSUMER, 1)


def test_a_drained_subpartition_drops_unsent_buffers() -> None:
    subpartition = holding(A, EVENT, B)
    serve_consumer(subpartition, credit=1)

    assert subpartition.drain() == (B,)
    assert subpartition.serve() == []


def test_elements_added_after_the_end_are_refused() -> None:
    subpartition = holding(A, EndOfPartition())

    with pytest.raises(AssertionError, match="after the end"):
        subpartition.add(B)


@given(st.lists(st.sampled_from(["batch", "event", "priority", "credit"]), max_size=30))
def test_everything_is_sent_once_and_in_order_except_priority_events(words: list[str]) -> None:
    subpartition = holding()
    added: list[Buffer] = []
    taken: list[Buffer] = []
    for number, word in enumerate(words):
        match word:
            case "batch":
                added.append(batch_ref(f"{number}"))
                subpartition.add(added[-1])
            case "event":
                added.append(Watermark(timestamp_ms=number))
                subpartition.add(added[-1])
            case "priority":
                subpartition.add_priority(replace(UNALIGNED, checkpoint_id=number))
        taken += serve_consumer(subpartition, credit=word == "credit")
        subpartition.check()

    taken += serve_consumer(subpartition)

    assert [buffer for buffer in taken if not isinstance(buffer, CheckpointBarrier)] == added
    assert subpartition.queued == 0
