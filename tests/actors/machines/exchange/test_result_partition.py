"""A result partition sends buffers to its readers within their credit, and releases unsent buffers when it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.result_partition import MAX_BUFFERS_PER_CHANNEL, ResultPartition
from flykka.messages.tasks.exchange import (
    BacklogAnnouncement,
    Buffer,
    BufferResponse,
    CheckpointBarrier,
    EndOfPartition,
    ErrorResponse,
    LatencyMarker,
    Watermark,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from tests.actors.machines.exchange.builders import (
    CONSUMER,
    batch_ref,
    buffers_sent,
    partition,
    partition_descriptor,
    partition_id,
)

BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
CAUSE = SerializedThrowable(type_name="ValueError", message="bad row")


def element(buffer: Buffer, sequence_number: int, backlog: int = 0, subpartition: int = 0) -> Tell[Ref]:
    return Tell(
        to=CONSUMER,
        message=BufferResponse(
            partition_id=partition_id(),
            subpartition=subpartition,
            sequence_number=sequence_number,
            buffer=buffer,
            backlog=backlog,
        ),
    )


def backlog_announcement(backlog: int) -> Tell[Ref]:
    return Tell(
        to=CONSUMER,
        message=BacklogAnnouncement(partition_id=partition_id(), subpartition=0, backlog=backlog),
    )


def filled(*names: str) -> ResultPartition:
    output = partition()
    for name in names:
        output.add_batch(batch_ref(name))
    return output


def error_of(effects: list[PartitionEffect]) -> ErrorResponse:
    (effect,) = effects
    assert isinstance(effect, Tell)
    assert isinstance(effect.message, ErrorResponse)
    return effect.message


def test_buffers_are_sent_only_after_a_request_of_the_reader() -> None:
    output = partition()

    effects = output.add_batch(batch_ref()) + output.broadcast_event(BARRIER)

    assert effects == []
    assert output.queued_batches == 1


def test_a_reader_gets_batches_by_credit_and_the_size_of_the_backlog() -> None:
    output = filled("a", "b", "c")

    effects = output.request(0, 2, CONSUMER)

    assert effects == [element(batch_ref("a"), 0, backlog=2), element(batch_ref("b"), 1, backlog=1)]
    assert output.queued_batches == 1


def test_credit_releases_waiting_buffers() -> None:
    output = filled("a", "b")
    output.request(0, 1, CONSUMER)

    effects = output.add_credit(0, 1)

    assert effects == [element(batch_ref("b"), 1)]


def test_events_cost_no_credit() -> None:
    output = partition()
    output.request(0, 0, CONSUMER)

    effects = output.broadcast_event(BARRIER) + output.broadcast_event(Watermark(timestamp_ms=5))

    assert effects == [element(BARRIER, 0), element(Watermark(timestamp_ms=5), 1)]


def test_an_event_does_not_overtake_a_batch_that_waits_for_credit() -> None:
    output = partition()
    output.request(0, 0, CONSUMER)
    output.add_batch(batch_ref("a"))

    held = output.broadcast_event(BARRIER)
    freed = output.add_credit(0, 1)

    assert held == []
    assert freed == [element(batch_ref("a"), 0), element(BARRIER, 1)]


def test_new_waiting_data_is_announced_once() -> None:
    output = partition()
    output.request(0, 0, CONSUMER)

    effects = [output.add_batch(batch_ref(name)) for name in ("a", "b", "c")]

    assert effects == [[backlog_announcement(1)], [], []]


def test_data_that_waits_again_is_announced_again() -> None:
    output = partition()
    output.request(0, 1, CONSUMER)
    output.add_batch(batch_ref("a"))
    first = output.add_batch(batch_ref("b"))
    output.add_credit(0, 1)

    second = output.add_batch(batch_ref("c"))

    assert first == second == [backlog_announcement(1)]


def test_a_batch_is_sent_to_its_subpartition_and_an_event_to_all() -> None:
    output = partition(subpartitions=2)
    output.request(0, 5, CONSUMER)
    output.request(1, 5, CONSUMER)

    effects = output.add_batch(batch_ref("a", subpartition=1)) + output.broadcast_event(BARRIER)

    assert effects == [
        element(batch_ref("a", subpartition=1), 0, subpartition=1),
        element(BARRIER, 0, subpartition=0),
        element(BARRIER, 1, subpartition=1),
    ]


def test_a_partition_accepts_a_batch_while_its_pool_has_a_buffer() -> None:
    output = ResultPartition(partition_descriptor(), 2)
    output.add_batch(batch_ref("a"))
    with_one = output.is_available
    output.add_batch(batch_ref("b"))
    with_two = output.is_available

    output.request(0, 1, CONSUMER)

    assert (with_one, with_two, output.is_available) == (True, False, True)


def test_a_running_stage_may_exceed_the_pool_until_its_buffers_are_recycled() -> None:
    output = ResultPartition(partition_descriptor(), 1)
    for name in ("a", "b", "c"):
        output.add_batch(batch_ref(name))
    output.request(0, 2, CONSUMER)

    with_one_left = output.is_available
    output.add_credit(0, 1)

    assert (with_one_left, output.is_available) == (False, True)


def test_an_idle_reader_does_not_fill_a_shared_output() -> None:
    output = partition(subpartitions=20)
    for number in range(MAX_BUFFERS_PER_CHANNEL):
        assert output.is_available
        output.add_batch(batch_ref(f"{number}", subpartition=3))

    slow = output.is_available
    output.request(3, 1, CONSUMER)

    assert (slow, output.is_available) == (False, True)


def test_a_partition_is_consumed_when_every_reader_was_sent_the_end() -> None:
    output = partition(subpartitions=2)
    output.request(0, 1, CONSUMER)
    output.finish()
    only_one = output.all_consumed

    last = output.request(1, 1, CONSUMER)

    assert output.is_finished
    assert not only_one
    assert buffers_sent(last) == [EndOfPartition()]
    assert output.all_consumed


def test_elements_after_the_end_are_refused() -> None:
    output = partition()
    output.finish()

    with pytest.raises(AssertionError, match="after the end"):
        output.add_batch(batch_ref())


def test_batches_of_a_reader_that_cancels_are_released() -> None:
    output = filled("a", "b")
    output.request(0, 1, CONSUMER)

    left = output.cancel(0)
    late = output.add_batch(batch_ref("c"))

    assert left == [ReleaseBatch(batch=batch_ref("b"))]
    assert late == [ReleaseBatch(batch=batch_ref("c"))]
    assert output.all_consumed
    assert output.queued_batches == 0


def test_cancelling_a_reader_twice_is_ignored() -> None:
    output = filled("a")
    output.request(0, 0, CONSUMER)
    output.cancel(0)

    (again,) = output.cancel(0)

    assert isinstance(again, Ignore)
    assert output.all_consumed


def test_credit_received_after_the_end_is_ignored() -> None:
    output = partition()
    output.request(0, 1, CONSUMER)
    output.finish()

    (late,) = output.add_credit(0, 1)

    assert isinstance(late, Ignore)


def test_a_subpartition_has_only_one_reader() -> None:
    output = partition()
    output.request(0, 1, CONSUMER)

    refusal = error_of(output.request(0, 1, CONSUMER))

    assert refusal.cause.type_name == "SubpartitionAlreadyRequestedError"
    assert not refusal.partition_not_found


@pytest.mark.parametrize("subpartition", [-1, 1])
def test_an_unknown_subpartition_is_refused_by_number(subpartition: int) -> None:
    output = partition()

    refusal = error_of(output.request(subpartition, 1, CONSUMER))
    said = output.add_credit(subpartition, 1) + output.cancel(subpartition)

    assert refusal.cause.type_name == "UnknownSubpartitionError"
    assert str(subpartition) in refusal.cause.message
    assert all(isinstance(effect, Ignore) for effect in said)


def test_duplicate_or_early_messages_of_a_reader_are_ignored() -> None:
    output = partition()
    early = output.add_credit(0, 1) + output.cancel(0)
    output.request(0, 1, CONSUMER)
    output.cancel(0)

    late = output.cancel(0) + output.add_credit(0, 1)
    output.check()

    assert all(isinstance(effect, Ignore) for effect in early + late)


def test_a_batch_without_rows_is_released_and_gets_no_sequence_number() -> None:
    output = partition()
    output.request(0, 2, CONSUMER)
    empty = replace(batch_ref("empty"), rows=0)

    effects = output.add_batch(empty) + output.add_batch(batch_ref("a"))

    assert effects == [ReleaseBatch(batch=empty), element(batch_ref("a"), 0)]


def test_a_barrier_may_overtake_the_batches_of_every_reader_and_lists_them() -> None:
    output = partition(subpartitions=2)
    output.request(0, 1, CONSUMER)
    for name in ("sent", "waits"):
        output.add_batch(batch_ref(name, subpartition=0))
    output.add_batch(batch_ref("unread", subpartition=1))

    effects, overtaken = output.broadcast_priority_event(BARRIER)
    output.check()

    assert buffers_sent(effects) == [BARRIER]
    assert overtaken == (batch_ref("waits", subpartition=0), batch_ref("unread", subpartition=1))


def test_unsent_batches_hold_buffers_until_sent_or_dropped() -> None:
    output = ResultPartition(partition_descriptor(2), 9)
    for name in ("a", "b"):
        output.add_batch(batch_ref(name, subpartition=0))
        output.add_batch(batch_ref(name, subpartition=1))
    used = [output.queued_batches]

    output.request(0, 1, CONSUMER)
    used.append(output.queued_batches)
    output.cancel(0)
    used.append(output.queued_batches)
    output.release()
    output.check()

    assert used == [4, 3, 2]
    assert output.queued_batches == 0


def test_a_partition_that_exceeds_its_byte_limit_accepts_no_batch() -> None:
    output = ResultPartition(partition_descriptor(), 3, bytes_per_buffer=50)
    output.add_batch(batch_ref("a"))
    with_one = output.is_available
    output.add_batch(batch_ref("b"))

    full = output.is_available
    output.resize(5)

    assert (with_one, full, output.is_available) == (True, False, True)


def test_latency_markers_are_sent_to_consumers_in_turn() -> None:
    output = partition(subpartitions=3)
    markers = [LatencyMarker(marked_ms=number, operator_id="source", subtask=0) for number in range(4)]

    for marker in markers:
        output.emit_in_turn(marker)

    got = [buffers_sent(output.request(channel, 9, CONSUMER)) for channel in range(3)]
    assert got == [[markers[0], markers[3]], [markers[1]], [markers[2]]]


def test_latency_markers_skip_consumers_that_have_cancelled() -> None:
    output = partition(subpartitions=2)
    output.request(0, 9, CONSUMER)
    output.cancel(0)
    marker = LatencyMarker(marked_ms=0, operator_id="source", subtask=0)

    output.emit_in_turn(marker)
    output.emit_in_turn(marker)

    assert buffers_sent(output.request(1, 9, CONSUMER)) == [marker, marker]
    output.cancel(1)
    assert output.emit_in_turn(marker) == []


def test_a_failed_producer_notifies_its_readers_and_releases_unsent_batches() -> None:
    output = partition(subpartitions=2)
    output.request(0, 1, CONSUMER)
    output.add_batch(batch_ref("a", subpartition=1))

    notification, released = output.fail(CAUSE)

    error = error_of([notification])
    assert (error.subpartition, error.cause.type_name) == (0, PRODUCER_FAILED_ERROR)
    assert "ValueError: bad row" in error.cause.message
    assert released == ReleaseBatch(batch=batch_ref("a", subpartition=1))


def test_a_reader_with_all_data_is_not_notified_of_a_failure() -> None:
    output = partition()
    output.request(0, 1, CONSUMER)
    output.finish()

    assert output.fail(CAUSE) == []


def test_a_released_partition_drops_unsent_batches_and_is_not_found() -> None:
    output = filled("a", "b")

    unsent = output.release()
    late = output.add_batch(batch_ref("c"))
    refusal = error_of(output.request(0, 1, CONSUMER))

    assert unsent == (batch_ref("a"), batch_ref("b"))
    assert late == [ReleaseBatch(batch=batch_ref("c"))]
    assert refusal.partition_not_found
    assert output.queued_batches == 0
    assert output.all_consumed
