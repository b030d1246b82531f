"""A subpartition: what its reader may take, and when it is woken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.exchange.subpartition import BufferAndBacklog, PipelinedSubpartition
from flykka.messages.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.exchange import Buffer, CheckpointBarrier, EndOfPartition, Watermark
from tests.actors.exchange.builders import batch, partition_id

A, B, C = batch("a"), batch("b"), batch("c")
EMPTY = replace(batch("empty"), rows=0)
EVENT = Watermark(timestamp_ms=1)
BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
UNALIGNED = replace(BARRIER, options=CheckpointOptions(alignment=AlignmentType.UNALIGNED))


def read(*, blocks_behind_barriers: bool = False) -> PipelinedSubpartition:
    """A subpartition whose reader has come."""
    return PipelinedSubpartition(partition_id(), 0, blocks_behind_barriers=blocks_behind_barriers).create_view()


def everything(subpartition: PipelinedSubpartition) -> list[Buffer]:
    return [taken.buffer for taken in iter(subpartition.poll, None)]


def test_the_reader_is_woken_by_the_first_complete_buffer_and_not_again_before_it_has_drained_the_queue() -> None:
    subpartition = read()

    woken = [subpartition.add(A), subpartition.add(B), subpartition.add(EVENT), subpartition.add(batch("d"))]
    everything(subpartition)

    # A second buffer wakes as well: only then is it sure of the first that it is complete.
    assert woken == [True, True, False, False]
    assert subpartition.add(C)


def test_an_open_buffer_wakes_nobody_until_another_one_follows_it() -> None:
    subpartition = read()

    open_one = subpartition.add(A, complete=False)
    subpartition.complete_last()

    assert not open_one
    assert subpartition.add(B, complete=False)


def test_flush_lets_an_open_buffer_be_read_and_wakes_once() -> None:
    subpartition = read()
    subpartition.add(A, complete=False)

    assert (subpartition.is_available(), subpartition.backlog) == (False, 0)
    assert [subpartition.flush(), subpartition.flush()] == [True, False]
    assert (subpartition.is_available(), subpartition.backlog) == (True, 1)
    assert everything(subpartition) == [A]


def test_there_is_nothing_to_flush_in_an_empty_subpartition() -> None:
    assert not read().flush()


def test_the_end_wakes_the_reader_whatever_waits_before_it() -> None:
    subpartition = read()
    subpartition.add(A, complete=False)

    assert subpartition.finish()
    assert everything(subpartition) == [A, EndOfPartition()]


def test_the_last_buffer_is_no_backlog_before_it_is_flushed() -> None:
    subpartition = read()
    subpartition.add(A)
    subpartition.add(B)
    before = subpartition.backlog

    subpartition.flush()

    assert (before, subpartition.backlog) == (1, 2)


def test_an_element_says_what_is_behind_it() -> None:
    subpartition = read()
    for buffer in (A, EVENT, B):
        subpartition.add(buffer)
    subpartition.flush()

    assert list(iter(subpartition.poll, None)) == [
        BufferAndBacklog(A, data_available=True, backlog=1, next_is_event=True),
        BufferAndBacklog(EVENT, data_available=True, backlog=1, next_is_event=False),
        BufferAndBacklog(B, data_available=False, backlog=0, next_is_event=False),
    ]


def test_data_without_a_row_is_passed_over_and_can_be_released() -> None:
    subpartition = read()
    for buffer in (EMPTY, A, EMPTY):
        subpartition.add(buffer)

    assert everything(subpartition) == [A]
    assert subpartition.take_dropped() == (EMPTY, EMPTY)
    assert subpartition.take_dropped() == ()


def test_without_credit_events_can_be_read_and_data_cannot() -> None:
    data, event = read(), read()
    data.add(A)
    event.add(EVENT)

    assert (data.is_available(has_credit=False), event.is_available(has_credit=False)) == (False, True)


def test_an_unaligned_barrier_overtakes_what_is_queued_and_names_the_data_of_it() -> None:
    subpartition = read()
    for buffer in (A, EVENT, B):
        subpartition.add(buffer)

    wakes, in_flight = subpartition.add_priority(UNALIGNED)

    assert (wakes, in_flight) == (True, (A, B))
    assert everything(subpartition) == [UNALIGNED, A, EVENT, B]


def test_priority_events_do_not_overtake_each_other() -> None:
    subpartition = read()
    subpartition.add(A)
    later = replace(UNALIGNED, checkpoint_id=2)

    woken = [subpartition.add_priority(UNALIGNED)[0], subpartition.add_priority(later)[0]]

    assert woken == [True, False]
    assert everything(subpartition) == [UNALIGNED, later, A]


def test_behind_an_aligned_barrier_nothing_is_read_before_the_reader_has_aligned_it() -> None:
    subpartition = read(blocks_behind_barriers=True)
    subpartition.add(BARRIER)
    taken = subpartition.poll()
    woken = [subpartition.add(A), subpartition.flush()]
    held_back = subpartition.poll()

    subpartition.resume_consumption()

    assert taken == BufferAndBacklog(BARRIER, data_available=False, backlog=0, next_is_event=False)
    assert (woken, held_back) == ([False, False], None)
    assert everything(subpartition) == [A]


@pytest.mark.parametrize(
    "barrier", [UNALIGNED, replace(BARRIER, options=CheckpointOptions(alignment=AlignmentType.AT_LEAST_ONCE))]
)
def test_nothing_waits_behind_a_barrier_that_is_not_aligned(barrier: CheckpointBarrier) -> None:
    subpartition = read(blocks_behind_barriers=True)
    subpartition.add(barrier)
    subpartition.add(A)

    assert everything(subpartition) == [barrier, A]


def test_a_subpartition_is_given_to_one_reader_only() -> None:
    with pytest.raises(AssertionError, match="one reader"):
        read().create_view()


def test_what_is_released_gives_up_what_was_not_read() -> None:
    subpartition = read()
    for buffer in (A, EVENT, B):
        subpartition.add(buffer)
    subpartition.poll()

    assert subpartition.release() == (B,)
    assert not subpartition.takes_more


@given(st.lists(st.sampled_from(["batch", "empty", "event", "priority", "poll", "flush"]), max_size=30))
def test_everything_is_read_once_and_in_its_order_but_for_what_has_priority(words: list[str]) -> None:
    subpartition = read()
    added: list[Buffer] = []
    taken: list[Buffer] = []
    for number, word in enumerate(words):
        match word:
            case "batch":
                added.append(batch(f"{number}"))
                subpartition.add(added[-1])
            case "empty":
                subpartition.add(EMPTY)
            case "event":
                added.append(Watermark(timestamp_ms=number))
                subpartition.add(added[-1])
            case "priority":
                subpartition.add_priority(replace(UNALIGNED, checkpoint_id=number))
            case "poll":
                one = subpartition.poll()
                taken += [] if one is None else [one.buffer]
            case "flush":
                subpartition.flush()
        subpartition.check()

    taken += everything(subpartition)

    assert [buffer for buffer in taken if not isinstance(buffer, CheckpointBarrier)] == added
    assert subpartition.queued == 0
