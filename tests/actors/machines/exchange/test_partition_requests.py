"""An input gate requests partitions from its producers at once, and again if the partitions do not exist yet."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore, StartTimer
from flykka.actors.machines.exchange.effects import ChannelFailed, ChannelFailureKind, RequestPartition
from flykka.actors.machines.exchange.input_gate import InputGate
from tests.actors.machines.exchange.builders import (
    PRODUCERS,
    batch_ref,
    error,
    failure_of,
    gate_descriptor,
    partition_id,
    requested_gate,
    response,
)


def test_every_subpartition_is_requested_with_the_channels_own_credit() -> None:
    gate = InputGate([gate_descriptor(2)], exclusive_credit=3, floating_credit=9)

    assert gate.request_partitions() == [
        RequestPartition(
            channel=channel, task_manager=PRODUCERS, partition_id=partition_id(channel), subpartition=0, credit=3
        )
        for channel in (0, 1)
    ]


def test_a_subpartition_is_requested_once() -> None:
    gate = requested_gate(2)

    assert gate.request_partitions() == []


def test_a_missing_partition_is_requested_again_with_growing_delays() -> None:
    gate = requested_gate()

    delays = []
    for _ in range(8):
        (effect,) = gate.on_error(error(not_found=True))
        assert isinstance(effect, StartTimer)
        delays.append(effect.delay_ms)
        gate.retry(0)

    assert delays == [100, 200, 400, 800, 1600, 3200, 6400, 10_000]
    assert failure_of(gate.on_error(error(not_found=True))).kind is ChannelFailureKind.PARTITION_NOT_FOUND


def test_a_retry_repeats_the_first_partition_request() -> None:
    gate = InputGate([gate_descriptor(1)])
    asked = gate.request_partitions()
    gate.on_error(error(not_found=True))

    assert gate.retry(0) == asked


def test_a_late_retry_is_ignored() -> None:
    gate = requested_gate()
    gate.on_error(error(not_found=True))
    gate.on_buffer(response(batch_ref()))

    (effect,) = gate.retry(0)

    assert isinstance(effect, Ignore)


def test_a_partition_lost_while_being_read_is_not_requested_again() -> None:
    gate = requested_gate()
    gate.on_buffer(response(batch_ref()))

    assert failure_of(gate.on_error(error(not_found=True))).kind is ChannelFailureKind.PARTITION_NOT_FOUND


def test_a_channel_fails_if_the_task_manager_of_its_partition_ends() -> None:
    gate = requested_gate(2)
    gate.on_buffer(response(batch_ref(), 0, channel=0))

    (failure,) = gate.on_connection_failed(PRODUCERS)

    assert isinstance(failure, ChannelFailed)
    assert (failure.channel, failure.kind) == (1, ChannelFailureKind.PARTITION_CONNECTION)
    assert partition_id(1) in failure.cause.message
    assert gate.failure is failure
