"""One channel of an input gate: the consumer's end of one subpartition.

Decides whether an element that arrives is the one expected and allowed, and keeps it until the gate takes it. Turns
between channels, and who is told what, belong to the gate. Follows Flink's RemoteInputChannel.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from enum import Enum

from flykka.actors.exchange.credits import ChannelCredits
from flykka.actors.exchange.effects import (
    PRODUCER_FAILED_ERROR,
    ChannelFailed,
    ChannelFailureKind,
    RequestPartition,
    RetryRequest,
    TellProducer,
)
from flykka.actors.exchange.partition_request import PartitionRequestBackoff
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import (
    AddCredit,
    Buffer,
    BufferResponse,
    CancelPartitionRequest,
    EndOfPartition,
    ErrorResponse,
)
from flykka.messages.failure import SerializedThrowable
from flykka.messages.task import InputChannelDescriptor


class ChannelState(Enum):
    """CREATED -> REQUESTED -> READING -> ENDED; FAILED and RELEASED from each of them."""

    CREATED = "created"
    REQUESTED = "requested"
    READING = "reading"
    ENDED = "ended"
    FAILED = "failed"
    RELEASED = "released"


OPEN = frozenset({ChannelState.REQUESTED, ChannelState.READING})
"""Something may still arrive."""


class InputChannel:
    """What has arrived on one channel and is not yet read. `channel` is its number among all channels of the task."""

    def __init__(
        self,
        channel: int,
        descriptor: InputChannelDescriptor,
        channel_credits: ChannelCredits,
        backoff: PartitionRequestBackoff,
    ) -> None:
        self.channel = channel
        self.descriptor = descriptor
        self.credits = channel_credits
        self.state = ChannelState.CREATED
        self.next_sequence_number = 0
        self.queue: deque[Buffer] = deque()
        self._backoff = backoff

    @property
    def is_open(self) -> bool:
        """Asked for, and neither ended nor given up."""
        return self.state in OPEN

    def request(self) -> RequestPartition:
        """Ask for the subpartition, for the first time or again, with the channel's own credits."""
        assert self.state in (ChannelState.CREATED, ChannelState.REQUESTED), f"{self} is {self.state.value}"
        self.state = ChannelState.REQUESTED
        return RequestPartition(
            channel=self.channel,
            task_manager=self.descriptor.task_manager,
            partition_id=self.descriptor.partition_id,
            subpartition=self.descriptor.subpartition,
            credit=self.credits.exclusive,
        )

    def announce(self) -> TellProducer:
        """Tell the producer of the credits that it does not know of."""
        descriptor = self.descriptor
        return self._tell_producer(
            AddCredit(
                partition_id=descriptor.partition_id,
                subpartition=descriptor.subpartition,
                credit=self.credits.take_announcement(),
            )
        )

    def cancel(self) -> TellProducer:
        """Tell the producer that nobody reads on."""
        descriptor = self.descriptor
        return self._tell_producer(
            CancelPartitionRequest(partition_id=descriptor.partition_id, subpartition=descriptor.subpartition)
        )

    def on_buffer(self, response: BufferResponse) -> ChannelFailed | None:
        """Queue the next element of an open channel; a failure where it is not the next one, or not allowed."""
        assert self.is_open, f"{self} is {self.state.value}"
        if response.sequence_number != self.next_sequence_number:
            text = f"expected element {self.next_sequence_number}, got element {response.sequence_number}"
            cause = SerializedThrowable(type_name="SequenceMismatchError", message=text)
            return self._fail(ChannelFailureKind.SEQUENCE_MISMATCH, cause)
        if isinstance(response.buffer, BatchRef) and not self.credits.spend():
            text = f"element {response.sequence_number} came without a credit"
            cause = SerializedThrowable(type_name="CreditOverrunError", message=text)
            return self._fail(ChannelFailureKind.CREDIT_OVERRUN, cause)
        self.state = ChannelState.ENDED if isinstance(response.buffer, EndOfPartition) else ChannelState.READING
        self.next_sequence_number += 1
        self.queue.append(response.buffer)
        self.credits.on_backlog(response.backlog)
        return None

    def on_backlog(self, backlog: int) -> None:
        """Data waits at the sender of an open channel."""
        assert self.is_open, f"{self} is {self.state.value}"
        self.state = ChannelState.READING
        self.credits.on_backlog(backlog)

    def on_error(self, response: ErrorResponse) -> RetryRequest | ChannelFailed:
        """The subpartition cannot be had: ask again while that may help."""
        assert self.is_open, f"{self} is {self.state.value}"
        if response.partition_not_found and self.state is ChannelState.REQUESTED:
            delay_ms = self._backoff.next_delay_ms()
            if delay_ms is not None:
                return RetryRequest(channel=self.channel, delay_ms=delay_ms)
        if response.partition_not_found:
            return self._fail(ChannelFailureKind.PARTITION_NOT_FOUND, response.cause)
        if response.cause.type_name == PRODUCER_FAILED_ERROR:
            return self._fail(ChannelFailureKind.PRODUCER_FAILED, response.cause)
        return self._fail(ChannelFailureKind.REFUSED, response.cause)

    def release(self) -> tuple[BatchRef, ...]:
        """Read no further; the batches that were never read."""
        self.state = ChannelState.RELEASED
        batches = tuple(buffer for buffer in self.queue if isinstance(buffer, BatchRef))
        self.queue.clear()
        return batches

    def check(self) -> None:
        """Assert that what is held was paid for, and that a state that has no data has none."""
        self.credits.check()
        batches = sum(isinstance(buffer, BatchRef) for buffer in self.queue)
        assert batches <= self.credits.in_use, "a queued batch holds a credit"
        assert self.state is not ChannelState.RELEASED or not self.queue
        assert self.state is not ChannelState.CREATED or self.next_sequence_number == 0

    def _tell_producer(self, message: AddCredit | CancelPartitionRequest) -> TellProducer:
        return TellProducer(channel=self.channel, task_manager=self.descriptor.task_manager, message=message)

    def _fail(self, kind: ChannelFailureKind, cause: SerializedThrowable) -> ChannelFailed:
        self.state = ChannelState.FAILED
        named = replace(cause, message=f"{self}: {cause.message}")
        return ChannelFailed(channel=self.channel, kind=kind, cause=named)

    def __str__(self) -> str:
        return f"channel {self.channel} (subpartition {self.descriptor.subpartition} of {self.descriptor.partition_id})"
