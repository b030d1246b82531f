"""A blocking partition whose task has finished: it is read by every consumer that asks, from its beginning.

What was read stays until the partition is released. Follows Flink's BoundedBlockingSubpartition.
"""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect
from flykka.actors.machines.exchange.result_partition import unknown_subpartition
from flykka.actors.machines.exchange.subpartition import Subpartition
from flykka.messages.tasks.exchange import AddCredit, CancelPartitionRequest, PartitionRequest
from flykka.messages.tasks.task import FinishedPartition
from flykka.messages.wire.ref import Ref


class KeptPartition:
    """A written partition and its readers, each at its own position."""

    def __init__(self, finished: FinishedPartition) -> None:
        self._finished = finished
        self._readers: dict[tuple[int, Ref], Subpartition] = {}

    def request(self, request: PartitionRequest) -> list[PartitionEffect]:
        index, descriptor = request.subpartition, self._finished.descriptor
        if not 0 <= index < descriptor.subpartitions:
            return [Tell(to=request.consumer, message=unknown_subpartition(descriptor, index))]
        place = index, request.consumer
        self._readers[place] = Subpartition(descriptor.partition_id, index, self._finished.subpartitions[index])
        self._readers[place].request(request.consumer, request.credit)
        return self._served(place)

    def add_credit(self, message: AddCredit, consumer: Ref | None) -> list[PartitionEffect]:
        """A consumer has room for more batches."""
        if consumer is None or (message.subpartition, consumer) not in self._readers:
            return [Ignore(reason=f"{consumer} does not read subpartition {message.subpartition}")]
        place = message.subpartition, consumer
        self._readers[place].credit += message.credit
        return self._served(place)

    def cancel(self, message: CancelPartitionRequest, consumer: Ref | None) -> list[PartitionEffect]:
        if consumer is None or self._readers.pop((message.subpartition, consumer), None) is None:
            return [Ignore(reason=f"{consumer} does not read subpartition {message.subpartition}")]
        return []

    def check(self) -> None:
        """Assert that no reader waits that could be served."""
        for reader in self._readers.values():
            reader.check()

    def _served(self, place: tuple[int, Ref]) -> list[PartitionEffect]:
        reader = self._readers[place]
        sent = reader.serve()
        if reader.is_consumed:
            del self._readers[place]
        return list(sent)
