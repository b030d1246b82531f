"""The reader of a subpartition as its producer sees it: what it may be sent now, and under which number.

The rule: it is served while there is an element and it has credit or the element is an event. Events cost no credit and
do not overtake data. Elements are numbered from 0. Follows Flink's CreditBasedSequenceNumberingViewReader.
"""

from __future__ import annotations

from typing import Protocol

from flykka.actors.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect, ReleaseBatch, Send
from flykka.actors.exchange.subpartition import BufferAndBacklog
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import BacklogAnnouncement, BufferResponse, EndOfPartition, ErrorResponse
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ResultPartitionId
from flykka.messages.ref import Ref


class SubpartitionView(Protocol):
    """A subpartition at the place that one reader has come to."""

    @property
    def is_blocked(self) -> bool:
        """It waits behind a barrier for the reader."""

    @property
    def backlog(self) -> int:
        """Data that waits for the reader."""

    def is_available(self, has_credit: bool = True) -> bool:
        """Something can be read; without credit only events can."""

    def poll(self) -> BufferAndBacklog | None:
        """The next element; None while there is none."""

    def take_dropped(self) -> tuple[BatchRef, ...]:
        """What was passed over, and is to be released."""

    def resume_consumption(self) -> None:
        """Go on behind the barrier."""


class SubpartitionReader:
    """Serves one consumer from its view. `initial_credit` is what came with the request."""

    __slots__ = (
        "_initial_credit",
        "_may_go_on",
        "_partition_id",
        "_told_backlog",
        "_view",
        "consumer",
        "credit",
        "has_ended",
        "index",
        "next_sequence_number",
    )

    def __init__(
        self,
        partition_id: ResultPartitionId,
        index: int,
        view: SubpartitionView,
        consumer: Ref,
        initial_credit: int,
    ) -> None:
        self.index = index
        self.consumer = consumer
        self.credit = initial_credit
        self.next_sequence_number = 0
        self.has_ended = False
        self._initial_credit = initial_credit
        self._partition_id = partition_id
        self._view = view
        # The backlog that the consumer knows of: it is announced when data begins to wait, not with every batch.
        self._told_backlog = 0
        self._may_go_on = False

    @property
    def is_available(self) -> bool:
        """It may be sent the next element."""
        return not self.has_ended and self._view.is_available(self.credit > 0)

    def add_credit(self, credit: int) -> None:
        """The consumer has room for `credit` more batches."""
        self.credit += credit

    def resume_consumption(self) -> None:
        """The consumer has aligned. One without credits of its own has given the others back, and begins anew."""
        if self._initial_credit == 0:
            self.credit = self._told_backlog = 0
        self._view.resume_consumption()

    def serve(self, effects: list[PartitionEffect]) -> bool:
        """Send the next element, if it may be sent; whether it had better be served again.

        Else tell the backlog, where the consumer does not know that data waits.
        """
        if not self.is_available:
            if self.is_uninformed and not self.has_ended:
                effects.append(self._announce_backlog())
            return False
        response = self.next_response()
        for batch in self._view.take_dropped():
            effects.append(ReleaseBatch(batch=batch))
        if response is not None:
            effects.append(Send(consumer=self.consumer, response=response))
        return self._may_go_on

    def next_response(self) -> BufferResponse | None:
        """Take the next element for the consumer, who must be allowed to have it; None where there is nothing in it."""
        taken = self._view.poll()
        if taken is None:
            self._may_go_on = False
            return None
        self._may_go_on = taken.data_available
        if isinstance(taken.buffer, BatchRef):
            assert self.credit > 0, f"subpartition {self.index} of {self._partition_id}: a batch without a credit"
            self.credit -= 1
        sequence_number = self.next_sequence_number
        self.next_sequence_number += 1
        self._told_backlog = taken.backlog
        self.has_ended = isinstance(taken.buffer, EndOfPartition)
        return BufferResponse(
            partition_id=self._partition_id,
            subpartition=self.index,
            sequence_number=sequence_number,
            buffer=taken.buffer,
            backlog=taken.backlog,
        )

    def fail(self, cause: SerializedThrowable) -> list[PartitionEffect]:
        """The producer has failed: tell the consumer, unless it has everything."""
        if self.has_ended:
            return []
        text = f"subpartition {self.index} of {self._partition_id}: {cause.type_name}: {cause.message}"
        blamed = SerializedThrowable(type_name=PRODUCER_FAILED_ERROR, message=text, stack_trace=cause.stack_trace)
        error = ErrorResponse(partition_id=self._partition_id, subpartition=self.index, cause=blamed)
        return [Send(consumer=self.consumer, response=error)]

    @property
    def is_uninformed(self) -> bool:
        """Data waits, and the consumer does not know it."""
        return bool(self._view.backlog) and not self._told_backlog and not self._view.is_blocked

    def check(self) -> None:
        """Assert that credit is not overdrawn."""
        assert self.credit >= 0

    def _announce_backlog(self) -> Send:
        self._told_backlog = self._view.backlog
        announcement = BacklogAnnouncement(
            partition_id=self._partition_id, subpartition=self.index, backlog=self._told_backlog
        )
        return Send(consumer=self.consumer, response=announcement)
