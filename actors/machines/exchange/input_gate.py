"""All inputs of a task: their channels, read in fair turns.

Decides which channel is read next, and which messages the producers get. The caller of `poll` decides what an element
(barrier, watermark) means. Inputs take turns, and so do the channels of each input; elements that overtake data are
read first. A blocked channel is not read: its elements stay in its queue, within its credits. Channels are numbered
across the inputs. Follows Flink's SingleInputGate and UnionInputGate.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.exchange.checkpoint_barrier_handler import BarrierAnnouncement
from flykka.actors.machines.exchange.credits import ChannelCredits, FloatingCredits
from flykka.actors.machines.exchange.effects import ChannelFailed, GateEffect, PersistInFlight, ReleaseBatch
from flykka.actors.machines.exchange.input_channel import (
    INITIAL_BACKOFF_MS,
    MAX_BACKOFF_MS,
    ChannelState,
    InputChannel,
    PartitionRequestBackoff,
)
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks import exchange
from flykka.messages.tasks.task import InputGateDescriptor
from flykka.messages.wire.ref import Ref

EXCLUSIVE_CREDIT = 2
FLOATING_CREDIT = 2


class EndOfDataStatus(Enum):
    """The end of the data: not reached, drained or stopped (stopped if any channel stops)."""

    NOT_END_OF_DATA = "not end of data"
    DRAINED = "drained"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False)
class _Input:
    """The channels of one input, their shared credits, and the readable channels, in the order of turns."""

    gate: int
    is_blocking: bool
    floating: FloatingCredits
    channels: tuple[InputChannel, ...]
    # Ordered sets of channel numbers: a channel is queued at most once, and a blocked channel leaves the queue.
    turns: OrderedDict[int, None] = field(default_factory=OrderedDict)
    priority_turns: OrderedDict[int, None] = field(default_factory=OrderedDict)


class InputGate:
    """The channels of one task. A task without inputs has no channels, and is finished from the start.

    `exclusive_credit` is at least 1: with floating credits alone, blocked channels could prevent the others from
    reading. `buffers` has the credits of each input if the TaskManager has assigned buffers to the task. Gates in
    `read_first` are read first; the other inputs follow when these have ended and all their batches are processed.
    """

    __slots__ = (
        "_blocked",
        "_by_subpartition",
        "_drain",
        "_first",
        "_input_of",
        "_inputs",
        "_not_ended",
        "_priority_turns",
        "_turns",
        "_with_data",
        "buffers_in_use",
        "channels",
        "failure",
        "waiting_batches",
        "waiting_bytes",
    )

    def __init__(
        self,
        descriptors: Sequence[InputGateDescriptor],
        exclusive_credit: int = EXCLUSIVE_CREDIT,
        floating_credit: int = FLOATING_CREDIT,
        *,
        buffers: exchange.TaskBuffers | None = None,
        read_first: frozenset[int] = frozenset(),
        initial_backoff_ms: int = INITIAL_BACKOFF_MS,
        max_backoff_ms: int = MAX_BACKOFF_MS,
    ) -> None:
        exclusive = exclusive_credit if buffers is None else buffers.exclusive
        if exclusive < 1:
            raise ValueError(f"a channel needs a credit of its own, not {exclusive}")
        inputs: list[_Input] = []
        channels: list[InputChannel] = []
        for number, descriptor in enumerate(descriptors):
            floating = FloatingCredits(floating_credit if buffers is None else buffers.floating[number])
            input_channels = tuple(
                InputChannel(
                    channel_number,
                    channel,
                    ChannelCredits(channel_number, exclusive, floating),
                    PartitionRequestBackoff(initial_backoff_ms, max_backoff_ms),
                )
                for channel_number, channel in enumerate(descriptor.channels, len(channels))
            )
            is_blocking = descriptor.consumed_partition_type is ResultPartitionType.BLOCKING
            inputs.append(_Input(descriptor.gate, is_blocking, floating, input_channels))
            channels += input_channels
        self.channels = tuple(channels)
        self.failure: ChannelFailed | None = None
        """The first failure of a channel, after which no element is read."""
        self.buffers_in_use = 0
        self.waiting_batches = 0
        """The number of batches that have arrived and were not yet read."""
        self.waiting_bytes = 0
        """The size of the batches that have arrived and were not yet read, in bytes."""
        self._inputs = tuple(inputs)
        self._first = {each for each in inputs if each.gate in read_first}
        self._input_of = [each for each in inputs for _ in each.channels]
        self._by_subpartition = {(c.descriptor.partition_id, c.descriptor.subpartition): c for c in channels}
        assert len(self._by_subpartition) == len(channels), "two channels of a task read the same subpartition"
        self._turns: OrderedDict[_Input, None] = OrderedDict()
        self._priority_turns: OrderedDict[_Input, None] = OrderedDict()
        self._blocked: set[int] = set()
        self._not_ended = self._with_data = len(channels)
        self._drain = True

    @property
    def has_data(self) -> bool:
        return bool(self._turns) and self.failure is None

    @property
    def has_priority(self) -> bool:
        return bool(self._priority_turns) and self.failure is None

    @property
    def is_finished(self) -> bool:
        return self._not_ended == 0

    @property
    def is_available(self) -> bool:
        """True if the gate has data. A finished gate stays available, so that its task does not wait for it."""
        return self.has_data or self.is_finished

    @property
    def awaits_barriers(self) -> bool:
        """True if every channel without a barrier or end can receive more batches, and there is such a channel."""
        unlimited = [each for each in self.channels if each.channel not in self._blocked and each.awaits_barrier]
        return bool(unlimited) and all(each.credits.outstanding for each in unlimited)

    @property
    def end_of_data_status(self) -> EndOfDataStatus:
        """NOT_END_OF_DATA until every channel was read to the end of its data."""
        if self._with_data:
            return EndOfDataStatus.NOT_END_OF_DATA
        return EndOfDataStatus.DRAINED if self._drain else EndOfDataStatus.STOPPED

    @property
    def floating(self) -> tuple[FloatingCredits, ...]:
        return tuple(each.floating for each in self._inputs)

    def gate_of(self, channel: int) -> int:
        return self._input_of[channel].gate

    def request_partitions(self) -> list[GateEffect]:
        return [channel.request() for channel in self.channels if channel.state is ChannelState.CREATED]

    def on_connection_failed(self, task_manager: Ref) -> list[GateEffect]:
        """Fail the channels that wait for a reply of a TaskManager that has ended. The JobMaster handles the other
        channels.

        A channel of a blocking partition fails even if it was already being read: its producer has finished, so no
        failed task would cause a restart of the producer.
        """
        effects: list[GateEffect] = []
        for channel in self.channels:
            is_blocking = self._input_of[channel.channel].is_blocking
            is_lost = channel.is_open if is_blocking else channel.state is ChannelState.REQUESTED
            if is_lost and channel.descriptor.task_manager == task_manager:
                effects.append(self._failed(channel.on_connection_failed()))
        return effects

    def retry(self, channel: int) -> list[GateEffect]:
        retried = self.channels[channel]
        if retried.state is not ChannelState.REQUESTED:
            return [Ignore(reason=f"{retried} is {retried.state.value}")]
        return [retried.request()]

    def on_buffer(self, response: exchange.BufferResponse) -> list[GateEffect]:
        """Queue the next element of a channel. If no channel reads the element, drop it and cancel the sender's
        request.
        """
        channel = self._by_subpartition.get((response.partition_id, response.subpartition))
        if channel is None or not channel.is_open:
            cancel = exchange.CancelPartitionRequest(
                partition_id=response.partition_id, subpartition=response.subpartition
            )
            return [Tell(to=Role.SENDER, message=cancel), *_release(response.buffer)]
        failure = channel.on_buffer(response)
        if failure is not None:
            is_ours = response.sequence_number >= channel.next_sequence_number
            return [self._failed(failure), *(_release(response.buffer) if is_ours else [])]
        if isinstance(response.buffer, exchange.BatchRef):
            self.buffers_in_use += 1
            self.waiting_batches += 1
            self.waiting_bytes += response.buffer.size_bytes
        # A channel that is already queued keeps its position.
        self._line_up(channel)
        effects = self._persisted(channel, response.buffer)
        if isinstance(response.buffer, exchange.EndOfPartition):
            effects += self._announce(channel.credits.release())
        elif channel.credits.unannounced:
            effects += self._announce([channel.credits])
        return effects

    def on_backlog(self, announcement: exchange.BacklogAnnouncement) -> list[GateEffect]:
        channel = self._by_subpartition.get((announcement.partition_id, announcement.subpartition))
        if channel is None or not channel.is_open:
            return [Ignore(reason="the backlog is that of a channel that is not open")]
        channel.on_backlog(announcement.backlog)
        return self._announce([channel.credits])

    def on_error(self, response: exchange.ErrorResponse) -> list[GateEffect]:
        channel = self._by_subpartition.get((response.partition_id, response.subpartition))
        if channel is None or not channel.is_open:
            return [Ignore(reason="the error is that of a channel that is not open")]
        effect = channel.on_error(response)
        return [self._failed(effect) if isinstance(effect, ChannelFailed) else effect]

    def poll(self) -> tuple[int, exchange.Buffer | BarrierAnnouncement] | None:
        """Return the next element and its channel, in turn. Returns `None` if there is none, and after a failure."""
        if not self.has_data:
            return None
        source = next(iter(self._priority_turns or self._turns))
        self._turns.pop(source, None)
        number, _ = (source.priority_turns or source.turns).popitem(last=False)
        buffer = self.channels[number].take()
        self._line_up(self.channels[number])
        match buffer:
            case exchange.BatchRef(size_bytes=size_bytes):
                self.waiting_batches -= 1
                self.waiting_bytes -= size_bytes
            case exchange.EndOfData(drain=drain):
                self._with_data -= 1
                self._drain = self._drain and drain
            case exchange.EndOfPartition():
                self._not_ended -= 1
                self._read_others_after_first(source)
        return number, buffer

    def credit_returned(self, channel: int) -> list[GateEffect]:
        """Return the credit of the oldest batch read from `channel`. Any channel of the input may use it."""
        self.buffers_in_use -= 1
        taker = self.channels[channel].credits.give_back()
        self._read_others_after_first(self._input_of[channel])
        return [] if taker is None else self._announce([taker])

    def resize(self, floating: Sequence[int]) -> list[GateEffect]:
        pools = zip(self.floating, floating, strict=True)
        return [effect for pool, size in pools for effect in self._announce(pool.resize(size))]

    def block(self, channel: int) -> None:
        self._blocked.add(channel)
        self._input_of[channel].turns.pop(channel, None)
        self._take_turn(self._input_of[channel])

    def unblock_all(self) -> None:
        """Read from every channel again. The channels that were blocked take the last turns, ordered by number."""
        blocked, self._blocked = sorted(self._blocked), set()
        for channel in blocked:
            self._line_up(self.channels[channel])

    def prioritize(self, channel: int, checkpoint_id: int) -> None:
        self.channels[channel].prioritize(checkpoint_id)
        self._line_up(self.channels[channel])

    def start_persisting(self, checkpoint_id: int) -> list[PersistInFlight]:
        """Return the in-flight batches of a checkpoint that is taken before its barrier has arrived on all channels."""
        return [
            PersistInFlight(checkpoint_id=checkpoint_id, gate=self.gate_of(channel.channel), batch=batch)
            for channel in self.channels
            for batch in channel.start_persisting(checkpoint_id)
        ]

    def stop_persisting(self) -> None:
        for channel in self.channels:
            channel.stop_persisting()

    def check(self) -> None:
        for channel in self.channels:
            channel.check()
            number, source = channel.channel, self._input_of[channel.channel]
            assert (number in source.turns) == (bool(channel.queue) and number not in self._blocked)
            assert (number in source.priority_turns) == bool(channel.priority)
        for source in self._inputs:
            is_held = bool(self._first) and source not in self._first
            assert (source in self._turns) == (bool(source.turns or source.priority_turns) and not is_held)
            assert (source in self._priority_turns) == (bool(source.priority_turns) and not is_held)
            in_use = sum(channel.credits.floating for channel in source.channels)
            assert in_use == source.floating.used, "the channels do not use the counted number of floating credits"
            source.floating.check()
            starving = any(c.credits.is_waiting and c.credits.available < c.credits.required for c in source.channels)
            assert not (starving and source.floating.free), "a credit is unused although a channel waits for one"
        queued = (entry.buffer for channel in self.channels for entry in channel.queue)
        batches = [buffer for buffer in queued if isinstance(buffer, exchange.BatchRef)]
        assert self.waiting_batches == len(batches)
        assert self.waiting_bytes == sum(batch.size_bytes for batch in batches)
        assert self.buffers_in_use == sum(channel.credits.in_use for channel in self.channels)
        assert not any(c.is_open and c.credits.unannounced and not c.credits.outstanding for c in self.channels)

    def _line_up(self, channel: InputChannel) -> None:
        number, source = channel.channel, self._input_of[channel.channel]
        if channel.priority:
            source.priority_turns.setdefault(number)
        if not channel.queue:
            source.turns.pop(number, None)
        elif number not in self._blocked:
            source.turns.setdefault(number)
        self._take_turn(source)

    def _read_others_after_first(self, source: _Input) -> None:
        if source in self._first and all(channel.is_drained for channel in source.channels):
            self._first.remove(source)
            for other in self._inputs if not self._first else ():
                self._take_turn(other)

    def _take_turn(self, source: _Input) -> None:
        if self._first and source not in self._first:
            return
        if source.turns or source.priority_turns:
            self._turns.setdefault(source)
        else:
            self._turns.pop(source, None)
        if source.priority_turns:
            self._priority_turns.setdefault(source)
        else:
            self._priority_turns.pop(source, None)

    def _persisted(self, channel: InputChannel, buffer: exchange.Buffer) -> list[GateEffect]:
        if channel.persisting is None or not isinstance(buffer, exchange.BatchRef):
            return []
        return [PersistInFlight(checkpoint_id=channel.persisting, gate=self.gate_of(channel.channel), batch=buffer)]

    def _announce(self, takers: Iterable[ChannelCredits]) -> list[GateEffect]:
        effects: list[GateEffect] = []
        for taker in takers:
            effect = self.channels[taker.channel].on_credit_available()
            if effect is not None:
                effects.append(self._failed(effect) if isinstance(effect, ChannelFailed) else effect)
        return effects

    def _failed(self, failure: ChannelFailed) -> ChannelFailed:
        self.failure = self.failure or failure
        return failure


def _release(buffer: exchange.Buffer) -> list[GateEffect]:
    return [ReleaseBatch(batch=buffer)] if isinstance(buffer, exchange.BatchRef) else []
