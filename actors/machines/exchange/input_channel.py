"""A channel of an input gate: the consumer's side of one subpartition.

Checks that each arriving element is the expected one and is allowed, and queues it until the gate reads it. The gate
decides which channel is read next and which messages are sent. Follows Flink's RemoteInputChannel.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from flykka.actors.machines.effects import StartTimer, Tell
from flykka.actors.machines.exchange.checkpoint_barrier_handler import BarrierAnnouncement
from flykka.actors.machines.exchange.credits import ChannelCredits
from flykka.actors.machines.exchange.effects import (
    PRODUCER_FAILED_ERROR,
    ChannelFailed,
    ChannelFailureKind,
    RequestPartition,
)
from flykka.actors.machines.states import next_phase
from flykka.messages.tasks import exchange
from flykka.messages.tasks.task import InputChannelDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId

INITIAL_BACKOFF_MS = 100
MAX_BACKOFF_MS = 10_000


class PartitionRequestBackoff:
    """Delays repeated requests for a partition that does not exist yet.

    Tasks of a job are deployed at the same time, and a consumer may send its request before its producer runs. Follows
    the back-off of Flink's InputChannel: the first request is sent at once, the second after `initial_ms`; each further
    delay is doubled, up to `max_ms`, after which there are no more requests. With an `initial_ms` of 0 there is no
    second request.
    """

    __slots__ = ("_max_ms", "_next_ms")

    def __init__(self, initial_ms: int = INITIAL_BACKOFF_MS, max_ms: int = MAX_BACKOFF_MS) -> None:
        if not 0 <= initial_ms <= max_ms:
            raise ValueError(f"the back-off must grow from 0 or more: initial {initial_ms} ms, maximum {max_ms} ms")
        self._max_ms = max_ms
        self._next_ms: int | None = initial_ms or None

    def next_delay_ms(self) -> int | None:
        delay = self._next_ms
        if delay is not None:
            self._next_ms = min(2 * delay, self._max_ms) if delay < self._max_ms else None
        return delay


class ChannelState(Enum):
    """The state of a channel: READING from its first data or backlog, ENDED when the last element has arrived."""

    CREATED = "created"
    REQUESTED = "requested"
    READING = "reading"
    ENDED = "ended"
    FAILED = "failed"


C = ChannelState

CHANNEL_MOVES: dict[ChannelState, tuple[ChannelState, ...]] = {
    C.CREATED: (C.REQUESTED, C.FAILED),
    C.REQUESTED: (C.READING, C.ENDED, C.FAILED),
    C.READING: (C.ENDED, C.FAILED),
    C.ENDED: (),
    C.FAILED: (),
}

# Constants, because the members are read for every element and looking up an Enum member is slow.
_REQUESTED = ChannelState.REQUESTED
_READING = ChannelState.READING
_ENDED = ChannelState.ENDED

_LIMITS = (
    exchange.CheckpointBarrier,
    exchange.CancelCheckpointMarker,
    exchange.EndOfData,
    exchange.EndOfPartition,
)
"""Elements after which the batches before them can be processed without waiting for more."""


class Queued(NamedTuple):
    """An unread element with its sequence number. A barrier that may time out is announced first."""

    sequence_number: int
    buffer: exchange.Buffer | BarrierAnnouncement


class InputChannel:
    """The unread elements of one channel. `channel` is its number among all channels of the task.

    Elements in `priority` are read before those in `queue`: unaligned barriers, and announcements of aligned barriers.
    """

    __slots__ = (
        "_backoff",
        "_barriers",
        "_persisting",
        "channel",
        "credits",
        "descriptor",
        "next_sequence_number",
        "priority",
        "queue",
        "state",
    )

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
        self.queue: deque[Queued] = deque()
        self.priority: deque[Queued] = deque()
        self._backoff = backoff
        # The checkpoints whose barriers have arrived, with the barriers' sequence numbers, beginning with the last
        # barrier read.
        self._barriers: deque[tuple[int, int]] = deque()
        self._persisting: int | None = None

    @property
    def is_open(self) -> bool:
        return self.state is _READING or self.state is _REQUESTED

    @property
    def is_drained(self) -> bool:
        return self.state is _ENDED and not self.queue and not self.credits.in_use

    @property
    def awaits_barrier(self) -> bool:
        """True if the producer has sent neither a barrier nor the end of data after the elements read so far."""
        return self.is_open and not any(isinstance(each.buffer, _LIMITS) for each in self.queue)

    def request(self) -> RequestPartition:
        self._move(_REQUESTED)
        return RequestPartition(
            channel=self.channel,
            task_manager=self.descriptor.task_manager,
            partition_id=self.descriptor.partition_id,
            subpartition=self.descriptor.subpartition,
            credit=self.credits.exclusive,
            reconnects=self.descriptor.reconnects,
        )

    def on_credit_available(self) -> Tell[ResultPartitionId] | ChannelFailed | None:
        """Announce credits to the producer, if that is due.

        A channel that has not requested its subpartition has no producer to notify. It fails, and holds the credits
        until it is released.
        """
        if self.state is ChannelState.CREATED and self.credits.unannounced:
            cause = SerializedThrowable(
                type_name="IllegalStateError", message="a credit arrived before the subpartition was requested"
            )
            return self._fail(ChannelFailureKind.NOT_REQUESTED, cause)
        return self.announce() if self.is_open and self.credits.is_announcement_due else None

    def announce(self) -> Tell[ResultPartitionId]:
        message = exchange.AddCredit(
            partition_id=self.descriptor.partition_id,
            subpartition=self.descriptor.subpartition,
            credit=self.credits.take_announcement(),
        )
        return Tell(to=self.descriptor.partition_id, message=message)

    def on_connection_failed(self) -> ChannelFailed:
        """Fail the channel: the producer's TaskManager has ended, and elements that have not arrived are lost."""
        cause = SerializedThrowable(
            type_name="PartitionConnectionError",
            message=f"the TaskManager {self.descriptor.task_manager} cannot be reached",
            lost_partition=self.descriptor.partition_id,
        )
        return self._fail(ChannelFailureKind.PARTITION_CONNECTION, cause)

    def on_buffer(self, response: exchange.BufferResponse) -> ChannelFailed | None:
        """Queue the next element of an open channel. Fails the channel if the element is unexpected or not allowed."""
        assert self.is_open, f"{self} is {self.state.value}"
        if response.sequence_number != self.next_sequence_number:
            text = f"expected element {self.next_sequence_number}, got element {response.sequence_number}"
            cause = SerializedThrowable(type_name="SequenceMismatchError", message=text)
            return self._fail(ChannelFailureKind.SEQUENCE_MISMATCH, cause)
        if isinstance(response.buffer, exchange.BatchRef) and not self.credits.spend():
            text = f"element {response.sequence_number} arrived without a credit"
            cause = SerializedThrowable(type_name="CreditOverrunError", message=text)
            return self._fail(ChannelFailureKind.CREDIT_OVERRUN, cause)
        self._move(_ENDED if isinstance(response.buffer, exchange.EndOfPartition) else _READING)
        self._enqueue(Queued(response.sequence_number, response.buffer))
        self.next_sequence_number += 1
        self.credits.on_backlog(response.backlog)
        return None

    def take(self) -> exchange.Buffer | BarrierAnnouncement:
        buffer = (self.priority or self.queue).popleft().buffer
        if isinstance(buffer, exchange.CheckpointBarrier):
            # Earlier checkpoints will no longer be taken.
            while self._barriers and self._barriers[0][0] < buffer.checkpoint_id:
                self._barriers.popleft()
        return buffer

    def prioritize(self, checkpoint_id: int) -> None:
        """Let the announced barrier of the checkpoint overtake the data before it, if the barrier is still queued."""
        for place, queued in enumerate(self.queue):
            if isinstance(queued.buffer, exchange.CheckpointBarrier) and queued.buffer.checkpoint_id == checkpoint_id:
                del self.queue[place]
                self.priority.append(Queued(queued.sequence_number, queued.buffer.as_unaligned()))
                return

    # Channel state (Flink's ChannelStatePersister)

    @property
    def persisting(self) -> int | None:
        return self._persisting

    def start_persisting(self, checkpoint_id: int) -> tuple[exchange.BatchRef, ...]:
        """Persist the batches that arrive before the barrier of a checkpoint taken now. Returns the batches already in
        flight.
        """
        self._persisting = checkpoint_id if self._barrier_of(checkpoint_id) is None else None
        return self.in_flight(checkpoint_id)

    def stop_persisting(self) -> None:
        self._persisting = None

    def in_flight(self, checkpoint_id: int) -> tuple[exchange.BatchRef, ...]:
        barrier = self._barrier_of(checkpoint_id)
        return tuple(
            queued.buffer
            for queued in self.queue
            if isinstance(queued.buffer, exchange.BatchRef) and (barrier is None or queued.sequence_number < barrier)
        )

    def on_backlog(self, backlog: int) -> None:
        assert self.is_open, f"{self} is {self.state.value}"
        self._move(_READING)
        self.credits.on_backlog(backlog)

    def on_error(self, response: exchange.ErrorResponse) -> StartTimer | ChannelFailed:
        assert self.is_open, f"{self} is {self.state.value}"
        if response.partition_not_found and self.state is ChannelState.REQUESTED:
            delay_ms = self._backoff.next_delay_ms()
            if delay_ms is not None:
                due = exchange.PartitionRequestDue(channel=self.channel)
                return StartTimer(key=f"partition-request-{self.channel}", delay_ms=delay_ms, message=due)
        if response.partition_not_found:
            return self._fail(ChannelFailureKind.PARTITION_NOT_FOUND, response.cause)
        if response.cause.type_name == PRODUCER_FAILED_ERROR:
            return self._fail(ChannelFailureKind.PRODUCER_FAILED, response.cause)
        return self._fail(ChannelFailureKind.REFUSED, response.cause)

    def check(self) -> None:
        self.credits.check()
        batches = [queued.buffer for queued in self.queue if isinstance(queued.buffer, exchange.BatchRef)]
        assert len(batches) <= self.credits.in_use, "more batches are queued than credits are in use"
        assert not any(isinstance(queued.buffer, exchange.BatchRef) for queued in self.priority), (
            "a batch is queued among the priority events"
        )
        assert self._persisting is None or self._barrier_of(self._persisting) is None
        assert self.state is not ChannelState.CREATED or self.next_sequence_number == 0

    def _barrier_of(self, checkpoint_id: int) -> int | None:
        """Return the sequence number of the barrier that ends the checkpoint in this channel: its own, or a later
        one's.
        """
        return next((number for barrier, number in self._barriers if barrier >= checkpoint_id), None)

    def _enqueue(self, queued: Queued) -> None:
        buffer = queued.buffer
        if isinstance(buffer, exchange.CheckpointBarrier):
            self._barriers.append((buffer.checkpoint_id, queued.sequence_number))
            if self._persisting is not None and buffer.checkpoint_id >= self._persisting:
                self._persisting = None
            if buffer.is_unaligned:
                self.priority.append(queued)
                return
            if buffer.may_time_out:
                self.priority.append(Queued(queued.sequence_number, BarrierAnnouncement(barrier=buffer)))
        self.queue.append(queued)

    def _move(self, state: ChannelState) -> None:
        # In most calls the state does not change.
        if state is not self.state:
            self.state = next_phase(CHANNEL_MOVES, self.state, state)

    def _fail(self, kind: ChannelFailureKind, cause: SerializedThrowable) -> ChannelFailed:
        self._move(ChannelState.FAILED)
        cause_with_channel = replace(cause, message=f"{self}: {cause.message}")
        return ChannelFailed(channel=self.channel, kind=kind, cause=cause_with_channel)

    def __str__(self) -> str:
        return f"channel {self.channel} (subpartition {self.descriptor.subpartition} of {self.descriptor.partition_id})"
