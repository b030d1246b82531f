"""One input of a task: its channels, read in fair turns.

Decides which channel is read next and what the producers are told; what an element means (barriers, watermarks) is
decided by who polls. A blocked channel is not read: its elements stay in its queue, within its credits. Follows
Flink's SingleInputGate.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from flykka.actors.exchange.barriers import BarrierAnnouncement
from flykka.actors.exchange.channel_turns import ChannelTurns
from flykka.actors.exchange.credits import ChannelCredits, FloatingCredits
from flykka.actors.exchange.effects import ChannelFailed, GateEffect, PersistInFlight, ReleaseBatch, TurnAway
from flykka.actors.exchange.input_channel import ChannelState, InputChannel
from flykka.actors.exchange.partition_request import INITIAL_BACKOFF_MS, MAX_BACKOFF_MS, PartitionRequestBackoff
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import (
    BacklogAnnouncement,
    Buffer,
    BufferResponse,
    CancelPartitionRequest,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
)
from flykka.messages.ids import ResultPartitionId
from flykka.messages.job_graph import ResultPartitionType
from flykka.messages.ref import Ref
from flykka.messages.task import InputGateDescriptor

EXCLUSIVE_CREDIT = 2
FLOATING_CREDIT = 2


class EndOfDataStatus(Enum):
    """Whether all data of the input has been read, and whether the job is to drain (one channel that stops decides)."""

    NOT_END_OF_DATA = "not end of data"
    DRAINED = "drained"
    STOPPED = "stopped"


class InputGate:
    """The channels of one input. Channels are numbered from `first_channel`, so that a task can number across gates.

    `exclusive_credit` is at least 1: with floating credits alone, blocked channels could keep the others from running.
    """

    __slots__ = (
        "_by_subpartition",
        "_drain",
        "_is_blocking",
        "_not_ended",
        "_turns",
        "_with_data",
        "buffers_in_use",
        "channels",
        "failure",
        "first_channel",
        "floating",
        "gate",
    )

    def __init__(
        self,
        descriptor: InputGateDescriptor,
        exclusive_credit: int = EXCLUSIVE_CREDIT,
        floating_credit: int = FLOATING_CREDIT,
        *,
        first_channel: int = 0,
        initial_backoff_ms: int = INITIAL_BACKOFF_MS,
        max_backoff_ms: int = MAX_BACKOFF_MS,
    ) -> None:
        if exclusive_credit < 1:
            raise ValueError(f"a channel needs a credit of its own, not {exclusive_credit}")
        self.gate = descriptor.gate
        self.first_channel = first_channel
        self.floating = FloatingCredits(floating_credit)
        self.channels = tuple(
            InputChannel(
                number,
                channel,
                ChannelCredits(number, exclusive_credit, self.floating),
                PartitionRequestBackoff(initial_backoff_ms, max_backoff_ms),
            )
            for number, channel in enumerate(descriptor.channels, first_channel)
        )
        self.failure: ChannelFailed | None = None
        self.buffers_in_use = 0
        self._is_blocking = descriptor.consumed_partition_type is ResultPartitionType.BLOCKING
        self._by_subpartition = {(c.descriptor.partition_id, c.descriptor.subpartition): c for c in self.channels}
        assert len(self._by_subpartition) == len(self.channels), "two channels of a gate read the same subpartition"
        self._turns = ChannelTurns()
        self._not_ended = len(self.channels)
        self._with_data = len(self.channels)
        self._drain = True

    @property
    def has_data(self) -> bool:
        """Something can be read now."""
        return self._turns.has_next and self.failure is None

    @property
    def has_priority(self) -> bool:
        """Something that overtakes data can be read now."""
        return self._turns.has_priority and self.failure is None

    @property
    def is_finished(self) -> bool:
        """The end of every channel has been read."""
        return self._not_ended == 0

    @property
    def is_available(self) -> bool:
        """Polling is worth while. A finished gate stays available, so that nobody waits for it."""
        return self.has_data or self.is_finished

    @property
    def end_of_data_status(self) -> EndOfDataStatus:
        """What the channels read so far say about the end of the data."""
        if self._with_data:
            return EndOfDataStatus.NOT_END_OF_DATA
        return EndOfDataStatus.DRAINED if self._drain else EndOfDataStatus.STOPPED

    @property
    def subpartitions(self) -> Iterable[tuple[ResultPartitionId, int]]:
        """What the gate reads."""
        return self._by_subpartition.keys()

    def request_partitions(self) -> list[GateEffect]:
        """Ask for every subpartition; called once, when the task runs."""
        return [channel.request() for channel in self.channels]

    def on_connection_failed(self, task_manager: Ref) -> list[GateEffect]:
        """A TaskManager is gone: channels that wait for its answer fail, the JobMaster sees to the others.

        Of what was kept there nobody runs any more: who still reads it fails, too.
        """
        effects: list[GateEffect] = []
        for channel in self.channels:
            is_lost = channel.is_open if self._is_blocking else channel.state is ChannelState.REQUESTED
            if is_lost and channel.descriptor.task_manager == task_manager:
                effects.append(self._failed(channel.on_connection_failed()))
        return effects

    def retry(self, channel: int) -> list[GateEffect]:
        """The delay of a `RetryRequest` is over."""
        retried = self._channel(channel)
        if retried.state is not ChannelState.REQUESTED:
            return [Ignore(reason=f"{retried} is {retried.state.value}")]
        return [retried.request()]

    def on_buffer(self, response: BufferResponse) -> list[GateEffect]:
        """The next element of a channel has arrived."""
        channel = self._by_subpartition.get((response.partition_id, response.subpartition))
        if channel is None:
            return turn_away(response)
        if not channel.is_open:
            return turn_away(response)
        failure = channel.on_buffer(response)
        if failure is not None:
            is_ours = response.sequence_number >= channel.next_sequence_number
            return [self._failed(failure), *(_release(response.buffer) if is_ours else [])]
        if isinstance(response.buffer, BatchRef):
            self.buffers_in_use += 1
        # A channel that is in the line already keeps its place.
        self._turns.line_up(channel)
        takers = channel.credits.release() if channel.state is ChannelState.ENDED else [channel.credits]
        return [*self._persisted(channel, response.buffer), *self._announce(takers)]

    def on_backlog(self, announcement: BacklogAnnouncement) -> list[GateEffect]:
        """Data waits for credit at the producer."""
        channel = self._by_subpartition.get((announcement.partition_id, announcement.subpartition))
        if channel is None or not channel.is_open:
            return [Ignore(reason="a backlog of a channel that is not open")]
        channel.on_backlog(announcement.backlog)
        return self._announce([channel.credits])

    def on_error(self, response: ErrorResponse) -> list[GateEffect]:
        """A subpartition cannot be had, for now or at all."""
        channel = self._by_subpartition.get((response.partition_id, response.subpartition))
        if channel is None or not channel.is_open:
            return [Ignore(reason="an error of a channel that is not open")]
        effect = channel.on_error(response)
        return [self._failed(effect) if isinstance(effect, ChannelFailed) else effect]

    def poll(self) -> tuple[int, Buffer | BarrierAnnouncement] | None:
        """The next element and its channel, turn by turn; None while there is none, and after a failure."""
        if not self.has_data:
            return None
        number = self._turns.next()
        channel = self._channel(number)
        buffer = channel.take()
        self._turns.line_up(channel)
        match buffer:
            case EndOfData(drain=drain):
                self._with_data -= 1
                self._drain = self._drain and drain
            case EndOfPartition():
                self._not_ended -= 1
        return number, buffer

    def credit_returned(self, channel: int) -> list[GateEffect]:
        """The oldest batch read from `channel` is processed: another may come in its place, here or elsewhere."""
        self.buffers_in_use -= 1
        taker = self._channel(channel).credits.give_back()
        return [] if taker is None else self._announce([taker])

    def resize(self, floating: int) -> list[GateEffect]:
        """There is another number of floating credits from now on; who waited for one may have it."""
        return self._announce(self.floating.resize(floating))

    def block(self, channel: int) -> None:
        """Do not read from `channel` until `unblock_all`."""
        self._turns.block(self._channel(channel))

    def unblock_all(self) -> None:
        """Read from every channel again; those that were blocked take the last turns, by number."""
        self._turns.unblock_all(self._channel)

    def prioritize(self, channel: int, checkpoint_id: int) -> None:
        """Let the barrier that was announced in `channel` overtake the data before it."""
        prioritized = self._channel(channel)
        prioritized.prioritize(checkpoint_id)
        self._turns.line_up(prioritized)

    def start_persisting(self, checkpoint_id: int) -> list[GateEffect]:
        """A checkpoint is taken before its barrier has come through all channels: what is in flight into this gate."""
        return [
            PersistInFlight(checkpoint_id=checkpoint_id, gate=self.gate, batch=batch)
            for channel in self.channels
            for batch in channel.start_persisting(checkpoint_id)
        ]

    def stop_persisting(self) -> None:
        """Nothing that arrives is part of a checkpoint."""
        for channel in self.channels:
            channel.stop_persisting()

    def check(self) -> None:
        """Assert that turns, queues and credits agree."""
        for channel in self.channels:
            channel.check()
        assert self.buffers_in_use == sum(channel.credits.in_use for channel in self.channels)
        self._turns.check(self.channels)
        held = sum(channel.credits.floating for channel in self.channels)
        assert held == self.floating.used, "a floating credit is lost"
        self.floating.check()
        starving = any(c.credits.is_waiting and c.credits.available < c.credits.required for c in self.channels)
        assert not (starving and self.floating.free), "a credit lies idle while a channel waits for one"
        assert not any(c.is_open and c.credits.unannounced and not c.credits.outstanding for c in self.channels)

    def _persisted(self, channel: InputChannel, buffer: Buffer) -> list[GateEffect]:
        if channel.persisting is None or not isinstance(buffer, BatchRef):
            return []
        return [PersistInFlight(checkpoint_id=channel.persisting, gate=self.gate, batch=buffer)]

    def _channel(self, number: int) -> InputChannel:
        return self.channels[number - self.first_channel]

    def _announce(self, takers: Iterable[ChannelCredits]) -> list[GateEffect]:
        effects: list[GateEffect] = []
        for taker in takers:
            effect = self._channel(taker.channel).on_credit_available()
            if effect is not None:
                effects.append(self._failed(effect) if isinstance(effect, ChannelFailed) else effect)
        return effects

    def _failed(self, failure: ChannelFailed) -> ChannelFailed:
        self.failure = self.failure or failure
        return failure


def turn_away(response: BufferResponse) -> list[GateEffect]:
    """Drop an element of a subpartition that nobody here has asked for, and have no more of them sent."""
    cancel = CancelPartitionRequest(partition_id=response.partition_id, subpartition=response.subpartition)
    return [TurnAway(message=cancel), *_release(response.buffer)]


def _release(buffer: Buffer) -> list[GateEffect]:
    return [ReleaseBatch(batch=buffer)] if isinstance(buffer, BatchRef) else []
