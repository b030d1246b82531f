"""Everything a Task produces: its result partitions, served against credit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from flykka.actors.exchange.alignment import is_unaligned, unaligned_unsupported
from flykka.actors.exchange.buffer_pool import BufferListener, LocalBufferPool
from flykka.actors.exchange.effects import NotifyPartitionConsumable, PartitionEffect, Refuse, ReleaseBatch, Send
from flykka.actors.exchange.record_writer import RecordWriter
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.actors.exchange.result_partition_manager import ResultPartitionManager
from flykka.actors.execution.effects import TaskEffect, TellBridge, TellJobMaster, TellPeer
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import (
    AddCredit,
    CancelPartitionRequest,
    CheckpointBarrier,
    Event,
    PartitionConsumable,
    PartitionRequest,
    TaskBuffers,
    TaskEventMessage,
)
from flykka.messages.job_graph import ShipStrategy
from flykka.messages.stage import ReleaseBatches, StageOutput
from flykka.messages.task import ResultPartitionDescriptor

ALIGNED_STRATEGIES = frozenset({ShipStrategy.FORWARD, ShipStrategy.RESCALE, ShipStrategy.BROADCAST})
"""As in Flink, what is on its way between neighbours, or to everybody, is no state of a checkpoint."""


class TaskOutputs:
    """The outputs of one attempt."""

    def __init__(self, descriptors: Sequence[ResultPartitionDescriptor], buffers: TaskBuffers | None = None) -> None:
        self._by_output = {
            descriptor.output: ResultPartition(
                descriptor, None if buffers is None else _pool(descriptor, buffers, number)
            )
            for number, descriptor in enumerate(descriptors)
        }
        self._writers = {output: RecordWriter(partition) for output, partition in self._by_output.items()}
        self._partitions = ResultPartitionManager()
        for partition in self._by_output.values():
            self._partitions.register(partition)

    @property
    def is_back_pressured(self) -> bool:
        """Some consumer is slower than this task: an output has no buffer for another batch."""
        return not all(partition.is_available for partition in self._by_output.values())

    def handle(
        self, event: PartitionRequest | AddCredit | CancelPartitionRequest | TaskEventMessage
    ) -> list[TaskEffect]:
        """A consumer asks, has room, leaves, or sends an event up."""
        if isinstance(event, PartitionRequest):
            return _effects(self._partitions.request(event))
        return _effects(self._partitions.handle(event))

    def resize(self, buffers: TaskBuffers) -> None:
        """The TaskManager has shared its buffers out anew."""
        for partition, size in zip(self._by_output.values(), buffers.outputs, strict=True):
            partition.pool.resize(size)

    @property
    def buffers_in_use(self) -> int:
        """Batches that wait unsent."""
        return sum(partition.queued_batches for partition in self._by_output.values())

    def add(self, output: int, batch: BatchRef) -> list[TaskEffect]:
        """Give a batch to the subpartition it was made for."""
        return _effects(self._writers[output].emit(batch))

    def broadcast(self, event: Event) -> list[TaskEffect]:
        """Send an event down every output, behind all batches."""
        return [effect for writer in self._writers.values() for effect in _effects(writer.broadcast_event(event))]

    def emit_in_turn(self, event: Event) -> list[TaskEffect]:
        """Send an event down every output to one consumer, another one each time."""
        return [effect for writer in self._writers.values() for effect in _effects(writer.emit_in_turn(event))]

    def broadcast_barrier(self, barrier: CheckpointBarrier) -> tuple[list[TaskEffect], tuple[StageOutput, ...]]:
        """Send a barrier down every output, and say which batches it has overtaken.

        Where consumers must not be given batches of another's, as between neighbours, it stays behind all batches.
        """
        effects: list[TaskEffect] = []
        overtaken: list[StageOutput] = []
        for output, partition in self._by_output.items():
            if partition.descriptor.ship_strategy in ALIGNED_STRATEGIES:
                effects += _effects(partition.broadcast_event(unaligned_unsupported(barrier)))
            elif is_unaligned(barrier):
                sent, batches = partition.broadcast_priority_event(barrier)
                effects += _effects(sent)
                overtaken += [StageOutput(output=output, batch=batch) for batch in batches]
            else:
                effects += _effects(partition.broadcast_event(barrier))
        return effects, tuple(overtaken)

    def check(self) -> None:
        """Assert the invariants of the partitions."""
        for partition in self._by_output.values():
            partition.check()


def _pool(descriptor: ResultPartitionDescriptor, buffers: TaskBuffers, number: int) -> LocalBufferPool[BufferListener]:
    return LocalBufferPool(
        buffers.outputs[number], minimum=descriptor.subpartitions + 1, bytes_per_buffer=buffers.bytes_per_buffer
    )


def _effects(effects: list[PartitionEffect]) -> list[TaskEffect]:
    return [_effect(effect) for effect in effects]


def _effect(effect: PartitionEffect) -> TaskEffect:
    match effect:
        case Send(consumer=consumer, response=response):
            return TellPeer(receiver=consumer, message=response)
        case Refuse(response=response):
            return Ignore(reason=response.cause.message)
        case ReleaseBatch(batch=batch):
            return TellBridge(message=ReleaseBatches(batch_ids=(batch.batch_id,)))
        case NotifyPartitionConsumable(partition_id=partition_id):
            return TellJobMaster(message=PartitionConsumable(partition_id=partition_id))
        case Ignore():
            return effect
        case _:
            assert_never(effect)
