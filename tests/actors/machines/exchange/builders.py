"""Builders of batches, partitions and gates with default values, so that a test specifies only what matters."""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.exchange.effects import ChannelFailed, GateEffect
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.graph.job_graph import ResultPartitionType, ShipStrategy
from flykka.messages.tasks.exchange import BacklogAnnouncement, BatchRef, Buffer, BufferResponse, ErrorResponse
from flykka.messages.tasks.task import InputChannelDescriptor, InputGateDescriptor, ResultPartitionDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, ResultPartitionId
from flykka.messages.wire.ref import Ref

CONSUMER = Ref("/user/task-manager-1/consumer", 1)
PRODUCERS = Ref("/user/task-manager-2", 2)


def partition_id(producer: int = 0) -> ResultPartitionId:
    """Return the id of the partition that channel `producer` of a test's gate reads."""
    return ResultPartitionId(f"job_map_{producer}_0:0")


def batch_ref(name: str = "b", subpartition: int = 0) -> BatchRef:
    return BatchRef(batch_id=BatchId(name), rows=10, size_bytes=100, subpartition=subpartition)


def partition_descriptor(
    subpartitions: int = 1,
    producer: int = 0,
    partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED,
) -> ResultPartitionDescriptor:
    return ResultPartitionDescriptor(
        partition_id=partition_id(producer),
        output=0,
        subpartitions=subpartitions,
        ship_strategy=ShipStrategy.HASH,
        max_parallelism=128,
        partition_type=partition_type,
    )


def partition(subpartitions: int = 1, producer: int = 0) -> ResultPartition:
    return ResultPartition(partition_descriptor(subpartitions, producer))


def gate_descriptor(channels: int = 1, gate: int = 0, first_producer: int = 0) -> InputGateDescriptor:
    return InputGateDescriptor(
        gate=gate,
        channels=tuple(
            InputChannelDescriptor(
                partition_id=partition_id(first_producer + channel), subpartition=0, task_manager=PRODUCERS
            )
            for channel in range(channels)
        ),
    )


def requested_gate(channels: int = 1, exclusive: int = 2, floating: int = 0) -> InputGate:
    gate = InputGate([gate_descriptor(channels)], exclusive, floating)
    gate.request_partitions()
    return gate


def response(buffer: Buffer, sequence_number: int = 0, channel: int = 0, backlog: int = 0) -> BufferResponse:
    return BufferResponse(
        partition_id=partition_id(channel),
        subpartition=0,
        sequence_number=sequence_number,
        buffer=buffer,
        backlog=backlog,
    )


def announcement(backlog: int, channel: int = 0) -> BacklogAnnouncement:
    return BacklogAnnouncement(partition_id=partition_id(channel), subpartition=0, backlog=backlog)


def error(
    type_name: str = "SomeError", message: str = "no", channel: int = 0, *, not_found: bool = False
) -> ErrorResponse:
    return ErrorResponse(
        partition_id=partition_id(channel),
        subpartition=0,
        cause=SerializedThrowable(type_name=type_name, message=message),
        partition_not_found=not_found,
    )


def buffers_sent(effects: Iterable[object]) -> list[Buffer]:
    return [
        effect.message.buffer
        for effect in effects
        if isinstance(effect, Tell) and isinstance(effect.message, BufferResponse)
    ]


def failure_of(effects: list[GateEffect]) -> ChannelFailed:
    assert isinstance(effects[0], ChannelFailed)
    return effects[0]
