"""One output of a task: what it produces, kept per consumer until each has taken its part.

Decides to which subpartition an element goes and what a reader is answered. How a batch comes to its subpartition
(hash, turn, copy) is decided by who adds it. Follows Flink's pipelined ResultPartition, which is released as it is
consumed.
"""

from __future__ import annotations

from flykka.actors.exchange.effects import PartitionEffect, Refuse, Send
from flykka.actors.exchange.subpartition import PartitionTotals, PipelinedSubpartition
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import EndOfPartition, ErrorResponse, Event
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ref import Ref
from flykka.messages.task import ResultPartitionDescriptor


class ResultPartition:
    """The subpartitions of one output. Every method answers with what is to be sent or released now."""

    def __init__(self, descriptor: ResultPartitionDescriptor) -> None:
        self.descriptor = descriptor
        self.is_finished = False
        self._totals = PartitionTotals()
        self._subpartitions = tuple(
            PipelinedSubpartition(descriptor.partition_id, index, self._totals)
            for index in range(descriptor.subpartitions)
        )

    @property
    def queued_batches(self) -> int:
        """Batches that wait unsent, over all subpartitions."""
        return self._totals.queued_batches

    @property
    def all_consumed(self) -> bool:
        """Every reader has been sent the end, or has left."""
        return self._totals.unconsumed == 0

    def is_back_pressured(self, limit: int) -> bool:
        """More than `limit` batches wait unsent: the task had better not make more."""
        return self.queued_batches > limit

    def add_batch(self, batch: BatchRef) -> list[PartitionEffect]:
        """Queue a batch in the subpartition that it names."""
        return self._subpartitions[batch.subpartition].add(batch)

    def broadcast_event(self, event: Event) -> list[PartitionEffect]:
        """Queue an event in every subpartition, behind all batches added before it."""
        self.is_finished = self.is_finished or isinstance(event, EndOfPartition)
        return [effect for subpartition in self._subpartitions for effect in subpartition.add(event)]

    def finish(self) -> list[PartitionEffect]:
        """Nothing follows."""
        return self.broadcast_event(EndOfPartition())

    def request(self, subpartition: int, credit: int, consumer: Ref) -> list[PartitionEffect]:
        """A reader asks for its subpartition and has room for `credit` batches."""
        if not self._has(subpartition):
            return [Send(consumer=consumer, response=self._unknown(subpartition))]
        return self._subpartitions[subpartition].request(credit, consumer)

    def add_credit(self, subpartition: int, credit: int) -> list[PartitionEffect]:
        """A reader has room for `credit` more batches."""
        if not self._has(subpartition):
            return [Refuse(response=self._unknown(subpartition))]
        return self._subpartitions[subpartition].add_credit(credit)

    def cancel(self, subpartition: int) -> list[PartitionEffect]:
        """A reader leaves."""
        if not self._has(subpartition):
            return [Refuse(response=self._unknown(subpartition))]
        return self._subpartitions[subpartition].cancel()

    def fail(self, cause: SerializedThrowable) -> list[PartitionEffect]:
        """The task has failed: readers that have not got everything are told, what is left is released."""
        return [effect for subpartition in self._subpartitions for effect in subpartition.fail(cause)]

    def release(self) -> tuple[BatchRef, ...]:
        """Give up, without a word to the readers: the batches that were never sent. Later ones are released at once."""
        return tuple(batch for subpartition in self._subpartitions for batch in subpartition.release())

    def check(self) -> None:
        """Assert that the sums are those of the subpartitions."""
        for subpartition in self._subpartitions:
            subpartition.check()
        assert self.queued_batches == sum(subpartition.backlog for subpartition in self._subpartitions)

    def _has(self, subpartition: int) -> bool:
        return 0 <= subpartition < len(self._subpartitions)

    def _unknown(self, subpartition: int) -> ErrorResponse:
        partition_id = self.descriptor.partition_id
        text = f"{partition_id} has {len(self._subpartitions)} subpartitions, and none with the number {subpartition}"
        return ErrorResponse(
            partition_id=partition_id,
            subpartition=subpartition,
            cause=SerializedThrowable(type_name="UnknownSubpartitionError", message=text),
        )
