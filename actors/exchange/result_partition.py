"""One output of a task: what it produces, kept per consumer until each has taken its part.

Decides to which subpartition an element goes, what a reader is answered, and whether there is room for more: every
batch that waits holds a buffer of the partition's pool. How a batch comes to its subpartition (hash, turn, copy) is
decided by who adds it. A pipelined partition is released as it is consumed; a blocking one is read by anybody, as often
as they like, after it was written, and is kept until it is released. Follows Flink's ResultPartition.
"""

from __future__ import annotations

from flykka.actors.exchange.blocking_subpartition import BlockingSubpartition
from flykka.actors.exchange.buffer_pool import BufferListener, LocalBufferPool
from flykka.actors.exchange.effects import NotifyPartitionConsumable, PartitionEffect, ReleaseBatch, Send
from flykka.actors.exchange.partition_errors import partition_error, partition_not_found
from flykka.actors.exchange.partition_readers import PartitionReaders
from flykka.actors.exchange.subpartition import PartitionTotals, PipelinedSubpartition
from flykka.actors.exchange.subpartition_reader import SubpartitionReader
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import EndOfPartition, ErrorResponse, Event
from flykka.messages.failure import SerializedThrowable
from flykka.messages.job_graph import ResultPartitionType
from flykka.messages.ref import Ref
from flykka.messages.task import FinishedPartition, ResultPartitionDescriptor

FLOATING_BUFFERS = 2
"""Buffers of a partition beyond one for each of its subpartitions, where there are enough."""


MAX_BUFFERS_PER_CHANNEL = 10
"""With so many batches unsent for one reader an output takes no more, however much room it has for the others."""


def partition_pool(
    subpartitions: int, size: int | None = None, *, bytes_per_buffer: int | None = None
) -> LocalBufferPool[BufferListener]:
    """The pool of a partition; without a `size` that of one whose TaskManager has enough for everybody."""
    return LocalBufferPool(
        subpartitions + FLOATING_BUFFERS if size is None else size,
        minimum=subpartitions + 1,
        bytes_per_buffer=bytes_per_buffer,
        max_buffers_per_channel=MAX_BUFFERS_PER_CHANNEL,
    )


class ResultPartition:
    """The subpartitions of one output. Every method answers with what is to be sent or released now.

    `blocks_behind_barriers` as in `PipelinedSubpartition`. With `tells_consumable` the consumers are deployed when
    there is something for them. A Task of ours leaves all of this as it is: it runs at once with those that read it,
    its receivers do not read on behind a barrier, and the way to them, a mailbox, is always writable.
    """

    __slots__ = (
        "_awaits_first_batch",
        "_totals",
        "_unconsumed",
        "descriptor",
        "is_blocking",
        "is_finished",
        "is_released",
        "pool",
        "readers",
        "releases_on_consumption",
        "subpartitions",
    )

    def __init__(
        self,
        descriptor: ResultPartitionDescriptor,
        pool: LocalBufferPool[BufferListener] | None = None,
        *,
        partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED,
        releases_on_consumption: bool = False,
        blocks_behind_barriers: bool = False,
        tells_consumable: bool = False,
    ) -> None:
        self.descriptor = descriptor
        self.is_finished = False
        self.is_released = False
        self.pool = pool or partition_pool(descriptor.subpartitions)
        self.is_blocking = partition_type is ResultPartitionType.BLOCKING
        # What was written wholly may be asked for again: only who knows all its readers can say that it is consumed.
        self.releases_on_consumption = releases_on_consumption or not self.is_blocking
        self._awaits_first_batch = tells_consumable and not self.is_blocking
        self._totals = PartitionTotals(None if self.is_blocking else self.pool)
        self.subpartitions: tuple[PipelinedSubpartition | BlockingSubpartition, ...] = tuple(
            BlockingSubpartition(descriptor.partition_id, index, self._totals)
            if self.is_blocking
            else PipelinedSubpartition(
                descriptor.partition_id, index, self._totals, blocks_behind_barriers=blocks_behind_barriers
            )
            for index in range(descriptor.subpartitions)
        )
        self.readers = PartitionReaders(descriptor.partition_id, descriptor.subpartitions)
        self._unconsumed = dict.fromkeys(range(descriptor.subpartitions))

    @classmethod
    def kept(cls, finished: FinishedPartition) -> ResultPartition:
        """A blocking partition whose task has ended, to be read from the beginning by whoever asks."""
        partition = cls(finished.descriptor, partition_type=ResultPartitionType.BLOCKING)
        for subpartition, buffers in zip(partition.subpartitions, finished.subpartitions, strict=True):
            for buffer in buffers:
                subpartition.add(buffer)
        partition.is_finished = True
        return partition

    def finished(self) -> FinishedPartition:
        """What a blocking partition is kept by, which must be written wholly."""
        assert self.is_finished, f"{self.descriptor.partition_id} is not written wholly"
        blocking = [each for each in self.subpartitions if isinstance(each, BlockingSubpartition)]
        assert len(blocking) == len(self.subpartitions), f"{self.descriptor.partition_id} does not outlive its task"
        return FinishedPartition(descriptor=self.descriptor, subpartitions=tuple(each.buffers for each in blocking))

    @property
    def queued_batches(self) -> int:
        """Batches that wait unsent, over all subpartitions."""
        return self._totals.queued_batches

    @property
    def all_consumed(self) -> bool:
        """Every reader has been sent the end, or has left."""
        return not self._unconsumed

    @property
    def unread_subpartitions(self) -> tuple[int, ...]:
        """Those whose reader has not had everything and has not left."""
        return tuple(self._unconsumed)

    @property
    def is_available(self) -> bool:
        """There is a buffer for another batch: without one the task had better not make more."""
        return self.is_blocking or self.pool.is_available

    def add_batch(self, batch: BatchRef) -> list[PartitionEffect]:
        """Queue a batch in the subpartition that it names. One that nobody will read is released."""
        if batch.subpartition not in self._unconsumed:
            return [ReleaseBatch(batch=batch)]
        subpartition = self.subpartitions[batch.subpartition]
        wakes = subpartition.add(batch)
        # A batch is whole when it is made: nothing is gained by holding it back.
        effects = self._wake(batch.subpartition, subpartition.flush() or wakes)
        if self._awaits_first_batch:
            self._awaits_first_batch = False
            effects.append(NotifyPartitionConsumable(partition_id=self.descriptor.partition_id))
        return effects

    def broadcast_event(self, event: Event) -> list[PartitionEffect]:
        """Queue an event in every subpartition, behind all batches added before it."""
        self.is_finished = self.is_finished or isinstance(event, EndOfPartition)
        effects: list[PartitionEffect] = []
        for index in tuple(self._unconsumed):
            effects += self.add_event(index, event)
        return effects

    def add_event(self, subpartition: int, event: Event) -> list[PartitionEffect]:
        """Queue an event in one subpartition that is still read."""
        return self._wake(subpartition, self.subpartitions[subpartition].add(event))

    def broadcast_priority_event(self, event: Event) -> tuple[list[PartitionEffect], tuple[BatchRef, ...]]:
        """Let an event overtake all batches; what is sent, and the batches that it has overtaken."""
        effects: list[PartitionEffect] = []
        overtaken: list[BatchRef] = []
        for index in tuple(self._unconsumed):
            subpartition = self.subpartitions[index]
            assert isinstance(subpartition, PipelinedSubpartition), "nothing overtakes in a blocking partition"
            wakes, in_flight = subpartition.add_priority(event)
            overtaken += in_flight
            effects += self._wake(index, wakes)
        return effects, tuple(overtaken)

    def holds_barrier(self, subpartition: int, checkpoint_id: int) -> bool:
        """The barrier of the checkpoint waits in this subpartition."""
        holder = self.subpartitions[subpartition]
        return isinstance(holder, PipelinedSubpartition) and holder.holds_barrier(checkpoint_id)

    def prioritize_barrier(
        self, subpartition: int, checkpoint_id: int
    ) -> tuple[list[PartitionEffect], tuple[BatchRef, ...]]:
        """Let a barrier that waits here overtake what it waits behind; what is sent, and what it has overtaken."""
        holder = self.subpartitions[subpartition]
        assert isinstance(holder, PipelinedSubpartition), "nothing overtakes in a blocking partition"
        wakes, overtaken = holder.prioritize_barrier(checkpoint_id)
        return self._wake(subpartition, wakes), overtaken

    def finish(self) -> list[PartitionEffect]:
        """Nothing follows."""
        return self.broadcast_event(EndOfPartition())

    def request(self, subpartition: int, credit: int, consumer: Ref) -> list[PartitionEffect]:
        """A reader asks for its subpartition and has room for `credit` batches."""
        refused = self._refusal(subpartition)
        if refused is not None:
            return [Send(consumer=consumer, response=refused)]
        view = self.subpartitions[subpartition].create_view()
        self.readers.add(SubpartitionReader(self.descriptor.partition_id, subpartition, view, consumer, credit))
        return self._wake(subpartition, wakes=True)

    def add_credit(self, subpartition: int, credit: int, consumer: Ref | None = None) -> list[PartitionEffect]:
        """A reader (the only one, where it is not named) has room for `credit` more batches."""
        reader = self.readers.find(subpartition, consumer)
        if not isinstance(reader, SubpartitionReader):
            return [reader]
        reader.add_credit(credit)
        return self._served(self.readers.queue.enqueue(reader))

    def resume_consumption(self, subpartition: int, consumer: Ref | None = None) -> list[PartitionEffect]:
        """A reader has aligned the barrier that it got last."""
        reader = self.readers.find(subpartition, consumer)
        if not isinstance(reader, SubpartitionReader):
            return [reader]
        reader.resume_consumption()
        return self._served(self.readers.queue.enqueue(reader))

    def cancel(self, subpartition: int, consumer: Ref | None = None) -> list[PartitionEffect]:
        """A reader leaves; what nobody else will read is released."""
        reader = self.readers.find(subpartition, consumer)
        if not isinstance(reader, SubpartitionReader):
            is_known = self.readers.has(subpartition)
            return [Ignore(reason=f"nobody reads subpartition {subpartition}") if is_known else reader]
        return [ReleaseBatch(batch=batch) for batch in self._consumed(reader)]

    def set_writable(self, is_writable: bool) -> list[PartitionEffect]:
        """The way to the consumers is open, or is not: what waits for it is kept, in turns."""
        return self._served(self.readers.queue.set_writable(is_writable))

    def fail(self, cause: SerializedThrowable) -> list[PartitionEffect]:
        """The task has failed: readers that have not got everything are told, what is left is released."""
        told = [effect for reader in self.readers for effect in reader.fail(cause)]
        return [*told, *(ReleaseBatch(batch=batch) for batch in self.release())]

    def release(self) -> tuple[BatchRef, ...]:
        """Give up, without a word to the readers: the batches that were never sent. Later ones are released at once."""
        self.is_released = True
        self.readers.clear()
        self._unconsumed.clear()
        return tuple(batch for subpartition in self.subpartitions for batch in subpartition.release())

    def check(self) -> None:
        """Assert that the sums are those of the subpartitions, and that nobody waits who could be served."""
        self.pool.check()
        for subpartition in self.subpartitions:
            subpartition.check()
        for reader in self.readers:
            reader.check()
            is_waiting = reader.is_available or reader.is_uninformed
            assert not (self.readers.queue.is_writable and is_waiting), "a reader waits that could be served or told"
        assert self.is_blocking or self.pool.used == self.queued_batches, "a batch that waits holds a buffer"

    def _wake(self, index: int, wakes: bool) -> list[PartitionEffect]:
        if not wakes:
            return []
        effects: list[PartitionEffect] = []
        for reader in self.readers.of(index):
            effects += self.readers.queue.enqueue(reader)
        return self._served(effects)

    def _served(self, effects: list[PartitionEffect]) -> list[PartitionEffect]:
        """Take note of who has been sent the end."""
        ended = self.readers.queue.ended
        while ended:
            effects += [ReleaseBatch(batch=batch) for batch in self._consumed(ended.pop())]
        return effects

    def _consumed(self, reader: SubpartitionReader) -> tuple[BatchRef, ...]:
        """A reader has everything, or reads no further: the batches that nobody needs any more."""
        self.readers.remove(reader)
        self._unconsumed.pop(reader.index, None)
        left = () if self.is_blocking else self.subpartitions[reader.index].drain()
        return (*left, *self.release()) if self.all_consumed and self.releases_on_consumption else left

    def _refusal(self, index: int) -> ErrorResponse | None:
        """Why the subpartition cannot be read by somebody new."""
        partition_id = self.descriptor.partition_id
        if not self.readers.has(index):
            return self.readers.unknown(index)
        if self.is_released:
            return partition_not_found(partition_id, index, "the partition is released")
        if self.is_blocking and not self.is_finished:
            return partition_not_found(partition_id, index, "the partition is not written wholly yet")
        if not self.is_blocking and self.readers.were_read(index):
            text = "it has been asked for already, and is given to one reader only"
            return partition_error(partition_id, index, "SubpartitionAlreadyRequestedError", text)
        return None
