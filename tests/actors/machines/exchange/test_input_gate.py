"""An input gate requests partitions, accepts data, notifies its task, and reads its channels in turn."""

from __future__ import annotations

import pytest

from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR, ChannelFailureKind, ReleaseBatch
from flykka.actors.machines.exchange.input_gate import EndOfDataStatus, InputGate
from flykka.messages.tasks.exchange import (
    AddCredit,
    CancelPartitionRequest,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
)
from flykka.messages.wire.ids import ResultPartitionId
from tests.actors.machines.exchange.builders import (
    announcement,
    batch_ref,
    error,
    failure_of,
    gate_descriptor,
    partition_id,
    requested_gate,
    response,
)

BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)


def credit(count: int, channel: int = 0) -> Tell[ResultPartitionId]:
    producer = partition_id(channel)
    return Tell(to=producer, message=AddCredit(partition_id=producer, subpartition=0, credit=count))


def test_channels_with_data_are_read_in_turns() -> None:
    gate = requested_gate(2)
    for number, name in enumerate("ab"):
        gate.on_buffer(response(batch_ref(name), number, channel=0))
    gate.on_buffer(response(batch_ref("c"), 0, channel=1))

    read = [gate.poll() for _ in range(4)]

    assert read == [(0, batch_ref("a")), (1, batch_ref("c")), (0, batch_ref("b")), None]


def test_a_blocked_channel_is_not_read_and_retains_its_elements() -> None:
    gate = requested_gate(2)
    gate.on_buffer(response(BARRIER, 0, channel=0))
    gate.on_buffer(response(batch_ref("a"), 1, channel=0))
    gate.on_buffer(response(batch_ref("b"), 0, channel=1))
    gate.poll()

    gate.block(0)
    gate.on_buffer(response(batch_ref("c"), 2, channel=0))
    while_blocked = [gate.poll(), gate.poll()]
    gate.unblock_all()

    assert while_blocked == [(1, batch_ref("b")), None]
    assert [gate.poll(), gate.poll()] == [(0, batch_ref("a")), (0, batch_ref("c"))]


def test_a_processed_batch_frees_a_credit_for_another() -> None:
    gate = requested_gate()
    gate.on_buffer(response(batch_ref()))
    gate.poll()

    assert gate.credit_returned(0) == [credit(1)]


def test_credits_are_not_returned_before_the_batch_is_processed() -> None:
    gate = requested_gate()

    effects = gate.on_buffer(response(batch_ref()))
    gate.poll()

    assert effects == []


def test_a_backlog_is_answered_with_floating_credits() -> None:
    gate = requested_gate(exclusive=1, floating=4)

    assert gate.on_backlog(announcement(3)) == [credit(3)]


def test_a_floating_credit_passes_to_the_waiting_channel() -> None:
    gate = requested_gate(2, exclusive=1, floating=1)
    gate.on_backlog(announcement(1, channel=0))
    gate.on_backlog(announcement(1, channel=1))
    gate.on_buffer(response(batch_ref(), channel=0))
    gate.poll()

    assert gate.credit_returned(0) == [credit(1, channel=1)]


def test_an_ended_channel_passes_its_floating_credits_to_the_others() -> None:
    gate = requested_gate(2, exclusive=1, floating=1)
    gate.on_backlog(announcement(1, channel=0))
    gate.on_backlog(announcement(1, channel=1))

    assert gate.on_buffer(response(EndOfPartition(), channel=0)) == [credit(1, channel=1)]


def test_an_out_of_order_element_fails_the_gate_with_both_sequence_numbers() -> None:
    gate = requested_gate()
    gate.on_buffer(response(batch_ref("a"), 0))

    effects = gate.on_buffer(response(batch_ref("b"), 29))

    failure = failure_of(effects)
    assert failure.kind is ChannelFailureKind.SEQUENCE_MISMATCH
    assert "expected element 1, got element 29" in failure.cause.message
    assert partition_id() in failure.cause.message
    assert effects[1:] == [ReleaseBatch(batch=batch_ref("b"))]
    assert gate.poll() is None


def test_a_duplicate_of_a_held_element_is_not_released() -> None:
    gate = requested_gate()
    gate.on_buffer(response(batch_ref("a"), 0))

    effects = gate.on_buffer(response(batch_ref("a"), 0))

    assert effects == [failure_of(effects)]


def test_a_sender_that_exceeds_its_credit_fails_the_gate() -> None:
    gate = requested_gate(exclusive=1)
    gate.on_buffer(response(batch_ref("a"), 0))

    effects = gate.on_buffer(response(batch_ref("b"), 1))

    assert failure_of(effects).kind is ChannelFailureKind.CREDIT_OVERRUN
    assert effects[1:] == [ReleaseBatch(batch=batch_ref("b"))]


def test_a_failed_channel_gets_no_more_credit() -> None:
    gate = requested_gate()
    gate.on_buffer(response(batch_ref("a"), 0))
    gate.poll()
    gate.on_error(error())

    assert gate.credit_returned(0) == []


def test_an_event_needs_no_credit() -> None:
    gate = requested_gate(exclusive=1)
    gate.on_buffer(response(batch_ref("a"), 0))

    assert gate.on_buffer(response(BARRIER, 1)) == []


@pytest.mark.parametrize(
    ("type_name", "kind"),
    [
        (PRODUCER_FAILED_ERROR, ChannelFailureKind.PRODUCER_FAILED),
        ("UnknownSubpartitionError", ChannelFailureKind.REFUSED),
    ],
)
def test_an_error_names_its_channel(type_name: str, kind: ChannelFailureKind) -> None:
    gate = requested_gate()

    failure = failure_of(gate.on_error(error(type_name, "gone")))

    assert failure.kind is kind
    assert failure.cause.type_name == type_name
    assert "gone" in failure.cause.message


def test_the_first_failure_of_a_gate_is_retained() -> None:
    gate = requested_gate(2)
    first = failure_of(gate.on_error(error("First", channel=1)))

    gate.on_error(error("Second", channel=0))

    assert gate.failure == first


def test_a_failed_gate_cancels_senders_of_unread_data() -> None:
    gate = requested_gate()

    effects = gate.on_buffer(response(batch_ref(), channel=7))

    stop = CancelPartitionRequest(partition_id=partition_id(7), subpartition=0)
    assert effects == [Tell(to=Role.SENDER, message=stop), ReleaseBatch(batch=batch_ref())]


@pytest.mark.parametrize(
    ("drains", "status"),
    [((True, True), EndOfDataStatus.DRAINED), ((True, False), EndOfDataStatus.STOPPED)],
)
def test_data_has_ended_when_every_channel_has_ended(drains: tuple[bool, bool], status: EndOfDataStatus) -> None:
    gate = requested_gate(2)
    for channel, drain in enumerate(drains):
        gate.on_buffer(response(EndOfData(drain=drain), channel=channel))

    gate.poll()
    after_one = gate.end_of_data_status
    gate.poll()

    assert after_one is EndOfDataStatus.NOT_END_OF_DATA
    assert gate.end_of_data_status is status
    assert not gate.is_finished


def test_a_finished_gate_stays_available() -> None:
    gate = requested_gate(2)
    for channel in (0, 1):
        gate.on_buffer(response(EndOfPartition(), channel=channel))

    before = gate.is_finished
    gate.poll()
    gate.poll()

    assert not before
    assert gate.is_finished
    assert gate.is_available
    assert not gate.has_data


def test_a_gate_with_zero_exclusive_credits_is_refused() -> None:
    with pytest.raises(ValueError, match="a credit of its own"):
        InputGate([gate_descriptor(1)], exclusive_credit=0)
