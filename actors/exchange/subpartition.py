"""One subpartition: a queue with one reader, who is served against credit.

The rule: the reader is served while there is an element and it has credit or the element is an event. Events cost no
credit and do not overtake data. Elements are numbered from 0. Follows Flink's PipelinedSubpartition together with
CreditBasedSequenceNumberingViewReader.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from flykka.actors.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect, Refuse, ReleaseBatch, Send
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import BacklogAnnouncement, Buffer, BufferResponse, EndOfPartition, ErrorResponse
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ResultPartitionId
from flykka.messages.ref import Ref


class SubpartitionState(Enum):
    """WAITING for its reader -> READING -> CONSUMED, when the end was sent or the reader left; RELEASED from each."""

    WAITING = "waiting for its reader"
    READING = "being read"
    CONSUMED = "consumed"
    RELEASED = "released"


@dataclass(slots=True)
class PartitionTotals:
    """Sums over the subpartitions of a partition, kept by them so that asking costs the same for any number."""

    queued_batches: int = 0
    unconsumed: int = 0


class PipelinedSubpartition:
    """The elements for one consuming subtask that are not yet sent."""

    def __init__(self, partition_id: ResultPartitionId, index: int, totals: PartitionTotals) -> None:
        self.state = SubpartitionState.WAITING
        self.credit = 0
        self.backlog = 0
        self.next_sequence_number = 0
        self._partition_id = partition_id
        self._index = index
        self._queue: deque[Buffer] = deque()
        self._is_finished = False
        self._consumer: Ref | None = None
        # The backlog that the reader knows of: it is announced when data begins to wait, not with every batch.
        self._told_backlog = 0
        self._totals = totals
        totals.unconsumed += 1

    def add(self, buffer: Buffer) -> list[PartitionEffect]:
        """Queue an element, and send what may be sent. What nobody will read is released."""
        if self.state in (SubpartitionState.CONSUMED, SubpartitionState.RELEASED):
            return [ReleaseBatch(batch=buffer)] if isinstance(buffer, BatchRef) else []
        assert not self._is_finished, f"{self}: an element behind the end"
        self._is_finished = isinstance(buffer, EndOfPartition)
        self._queue.append(buffer)
        self._count(int(isinstance(buffer, BatchRef)))
        return self._serve()

    def request(self, credit: int, consumer: Ref) -> list[PartitionEffect]:
        """The reader has come. There is one at most, ever."""
        match self.state:
            case SubpartitionState.WAITING:
                self.state = SubpartitionState.READING
                self._consumer = consumer
                self.credit = credit
                return self._serve()
            case SubpartitionState.RELEASED:
                error = self._error("PartitionNotFoundError", "released", partition_not_found=True)
                return [Send(consumer=consumer, response=error)]
            case SubpartitionState.READING | SubpartitionState.CONSUMED:
                error = self._error("SubpartitionAlreadyRequestedError", f"already {self.state.value}")
                return [Send(consumer=consumer, response=error)]
            case unreachable:
                assert_never(unreachable)

    def add_credit(self, credit: int) -> list[PartitionEffect]:
        """The reader has room for `credit` more batches."""
        match self.state:
            case SubpartitionState.READING:
                self.credit += credit
                return self._serve()
            case SubpartitionState.WAITING:
                return [Refuse(response=self._error("UnknownReaderError", "credit came before the request"))]
            case SubpartitionState.CONSUMED | SubpartitionState.RELEASED:
                return [Ignore(reason=f"{self} is {self.state.value}")]
            case unreachable:
                assert_never(unreachable)

    def cancel(self) -> list[PartitionEffect]:
        """The reader leaves; what it did not get is released."""
        if self.state is not SubpartitionState.READING:
            return [Ignore(reason=f"{self} is {self.state.value}")]
        self._consumed()
        return [ReleaseBatch(batch=batch) for batch in self._drain()]

    def fail(self, cause: SerializedThrowable) -> list[PartitionEffect]:
        """The producer has failed: the reader is told, what it did not get is released."""
        told: list[PartitionEffect] = []
        if self.state is SubpartitionState.READING and self._consumer is not None:
            error = self._error(PRODUCER_FAILED_ERROR, f"{cause.type_name}: {cause.message}", cause.stack_trace)
            told.append(Send(consumer=self._consumer, response=error))
        return [*told, *(ReleaseBatch(batch=batch) for batch in self.release())]

    def release(self) -> tuple[BatchRef, ...]:
        """Give up: the batches that were never sent."""
        if self.state in (SubpartitionState.WAITING, SubpartitionState.READING):
            self._consumed()
        self.state = SubpartitionState.RELEASED
        return self._drain()

    def check(self) -> None:
        """Assert that the counts are true and that nothing waits that could be sent."""
        assert self.credit >= 0
        assert self.backlog == sum(isinstance(buffer, BatchRef) for buffer in self._queue)
        if self.state is SubpartitionState.READING:
            assert not self._queue or not self._may_send()
            assert not self.backlog or self._told_backlog, "the reader does not know that data waits"
        if self.state in (SubpartitionState.CONSUMED, SubpartitionState.RELEASED):
            assert not self._queue

    def next_response(self) -> BufferResponse:
        """Take the next element for the reader, who must be allowed to have it."""
        assert self._may_send(), f"{self}: a batch without a credit"
        buffer = self._queue.popleft()
        if isinstance(buffer, BatchRef):
            self.credit -= 1
            self._count(-1)
        sequence_number = self.next_sequence_number
        self.next_sequence_number += 1
        self._told_backlog = self.backlog
        if isinstance(buffer, EndOfPartition):
            self._consumed()
        return BufferResponse(
            partition_id=self._partition_id,
            subpartition=self._index,
            sequence_number=sequence_number,
            buffer=buffer,
            backlog=self.backlog,
        )

    def _serve(self) -> list[PartitionEffect]:
        consumer = self._consumer
        if self.state is not SubpartitionState.READING or consumer is None:
            return []
        effects: list[PartitionEffect] = []
        while self._queue and self._may_send():
            effects.append(Send(consumer=consumer, response=self.next_response()))
        if self.backlog and not self._told_backlog:
            self._told_backlog = self.backlog
            announcement = BacklogAnnouncement(
                partition_id=self._partition_id, subpartition=self._index, backlog=self.backlog
            )
            effects.append(Send(consumer=consumer, response=announcement))
        return effects

    def _may_send(self) -> bool:
        return self.credit > 0 or not isinstance(self._queue[0], BatchRef)

    def _count(self, batches: int) -> None:
        self.backlog += batches
        self._totals.queued_batches += batches

    def _consumed(self) -> None:
        self.state = SubpartitionState.CONSUMED
        self._totals.unconsumed -= 1

    def _drain(self) -> tuple[BatchRef, ...]:
        batches = tuple(buffer for buffer in self._queue if isinstance(buffer, BatchRef))
        self._queue.clear()
        self._count(-len(batches))
        return batches

    def _error(
        self, type_name: str, text: str, stack_trace: str = "", *, partition_not_found: bool = False
    ) -> ErrorResponse:
        return ErrorResponse(
            partition_id=self._partition_id,
            subpartition=self._index,
            cause=SerializedThrowable(type_name=type_name, message=f"{self}: {text}", stack_trace=stack_trace),
            partition_not_found=partition_not_found,
        )

    def __str__(self) -> str:
        return f"subpartition {self._index} of {self._partition_id}"
