"""The partitions that can be asked for: found by id, from their registration until they are released.

Follows Flink's ResultPartitionManager; here every Task has one, for its own outputs, and a TaskManager one for those
that have outlived their tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flykka.actors.exchange.effects import PartitionEffect, Send
from flykka.actors.exchange.partition_errors import partition_not_found
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.actors.ignore import Ignore
from flykka.messages.exchange import AddCredit, CancelPartitionRequest, PartitionRequest, TaskEventMessage
from flykka.messages.ids import ResultPartitionId
from flykka.messages.ref import Ref


class ResultPartitionManager:
    """Partitions by their ids. A consumer that asks for another one is told that it is not here."""

    __slots__ = ("_partitions",)

    def __init__(self) -> None:
        self._partitions: dict[ResultPartitionId, ResultPartition] = {}

    def __iter__(self) -> Iterator[ResultPartition]:
        return iter(self._partitions.values())

    def __contains__(self, partition_id: ResultPartitionId) -> bool:
        return partition_id in self._partitions

    def register(self, partition: ResultPartition) -> None:
        """From now on the partition can be asked for."""
        partition_id = partition.descriptor.partition_id
        assert partition_id not in self._partitions, f"{partition_id} is registered already"
        self._partitions[partition_id] = partition

    def release(self, partition_ids: Iterable[ResultPartitionId]) -> tuple[ResultPartitionId, ...]:
        """These cannot be asked for any more; those of them that could."""
        known = tuple(partition_id for partition_id in partition_ids if partition_id in self._partitions)
        for partition_id in known:
            self._partitions.pop(partition_id).release()
        return known

    def request(self, request: PartitionRequest) -> list[PartitionEffect]:
        """A consumer asks for a subpartition."""
        partition = self._partitions.get(request.partition_id)
        if partition is None:
            refusal = partition_not_found(request.partition_id, request.subpartition, "the partition is not here")
            return [Send(consumer=request.consumer, response=refusal)]
        return partition.request(request.subpartition, request.credit, request.consumer)

    def handle(
        self, message: AddCredit | CancelPartitionRequest | TaskEventMessage, consumer: Ref | None = None
    ) -> list[PartitionEffect]:
        """A consumer has room, leaves, or sends an event up: the only one of a subpartition where it is not named."""
        partition = self._partitions.get(message.partition_id)
        if partition is None:
            return [Ignore(reason=f"{message.partition_id} is not produced here")]
        match message:
            case AddCredit(subpartition=subpartition, credit=credit):
                return partition.add_credit(subpartition, credit, consumer)
            case CancelPartitionRequest(subpartition=subpartition):
                return partition.cancel(subpartition, consumer)
            case TaskEventMessage(subpartition=subpartition):
                return partition.resume_consumption(subpartition, consumer)
