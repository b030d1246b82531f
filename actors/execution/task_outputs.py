"""Everything a Task produces: its result partitions, served against credit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from flykka.actors.exchange.effects import NotifyPartitionConsumable, PartitionEffect, Refuse, ReleaseBatch, Send
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.actors.execution.effects import TaskEffect, TellBridge, TellJobMaster, TellPeer
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import AddCredit, CancelPartitionRequest, Event, PartitionConsumable, PartitionRequest
from flykka.messages.stage import ReleaseBatches
from flykka.messages.task import ResultPartitionDescriptor


class TaskOutputs:
    """The outputs of one attempt."""

    def __init__(self, descriptors: Sequence[ResultPartitionDescriptor]) -> None:
        self._by_output = {descriptor.output: ResultPartition(descriptor) for descriptor in descriptors}
        self._by_id = {partition.descriptor.partition_id: partition for partition in self._by_output.values()}

    @property
    def is_back_pressured(self) -> bool:
        """Some consumer is slower than this task: an output has no buffer for another batch."""
        return not all(partition.is_available for partition in self._by_output.values())

    def handle(self, event: PartitionRequest | AddCredit | CancelPartitionRequest) -> list[TaskEffect]:
        """A consumer asks, has room, or leaves."""
        partition = self._by_id.get(event.partition_id)
        if partition is None:
            return [Ignore(reason=f"{event.partition_id} is not produced here")]
        match event:
            case PartitionRequest(subpartition=subpartition, credit=credit, consumer=consumer):
                return _effects(partition.request(subpartition, credit, consumer))
            case AddCredit(subpartition=subpartition, credit=credit):
                return _effects(partition.add_credit(subpartition, credit))
            case CancelPartitionRequest(subpartition=subpartition):
                return _effects(partition.cancel(subpartition))
            case _:
                assert_never(event)

    def add(self, output: int, batch: BatchRef) -> list[TaskEffect]:
        """Give a batch to the subpartition it was made for."""
        return _effects(self._by_output[output].add_batch(batch))

    def broadcast(self, event: Event) -> list[TaskEffect]:
        """Send an event down every output, behind all batches."""
        return [
            effect for partition in self._by_output.values() for effect in _effects(partition.broadcast_event(event))
        ]

    def check(self) -> None:
        """Assert the invariants of the partitions."""
        for partition in self._by_output.values():
            partition.check()


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
