"""Everything a Task reads, as one line of elements: what arrived, how far event time is, what the barriers ask for.

Composes the gates, the barrier handler and the watermark valve; credits and requests go out as effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import assert_never

from flykka.actors.exchange.barrier_aligner import BarrierAligner
from flykka.actors.exchange.barrier_tracker import BarrierTracker
from flykka.actors.exchange.barriers import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAnnouncement,
    BlockChannel,
    CheckpointBarrierHandler,
    PrioritizeBarrier,
    StartAlignmentTimer,
    StartPersisting,
    StopPersisting,
    TriggerCheckpointOnBarrier,
    UnblockAllChannels,
)
from flykka.actors.exchange.effects import (
    ChannelFailed,
    GateEffect,
    PersistInFlight,
    ReleaseBatch,
    RequestPartition,
    RetryRequest,
    TellProducer,
    TurnAway,
)
from flykka.actors.exchange.input_gate import EndOfDataStatus
from flykka.actors.exchange.union_input_gate import UnionInputGate
from flykka.actors.exchange.watermarks import WatermarkValve
from flykka.actors.execution.channel_state import ChannelStateWriter
from flykka.actors.execution.effects import RetryPartitionRequest, TaskEffect, TellBridge, TellPeer, TellSender
from flykka.actors.execution.input_elements import (
    BatchArrived,
    CheckpointElement,
    EndOfDataReached,
    InFlightComplete,
    InFlightGivenUp,
    InputElement,
    PassedOn,
    SnapshotDue,
    SnapshotGivenUp,
    WatermarkAdvanced,
)
from flykka.actors.execution.snapshots import Alignment
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import (
    BacklogAnnouncement,
    Buffer,
    BufferResponse,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    LatencyMarker,
    PartitionRequest,
    PartitionRequestDue,
    TaskBuffers,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.job_graph import CheckpointingMode
from flykka.messages.ref import Ref
from flykka.messages.stage import InputInFlight, ReleaseBatches
from flykka.messages.task import TaskDeploymentDescriptor

ExchangeEvent = BufferResponse | BacklogAnnouncement | ErrorResponse | PartitionRequestDue


class TaskInputs:
    """The inputs of one attempt, whose Task is `consumer`."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, consumer: Ref, channel_state: ChannelStateWriter | None = None
    ) -> None:
        self._gates = UnionInputGate(descriptor.inputs, buffers=descriptor.buffers)
        self._consumer = consumer
        self._channel_state = channel_state or ChannelStateWriter()
        self._barriers = _barrier_handler(descriptor, self._gates.channel_count)
        self._valve = WatermarkValve(self._gates.channel_count)
        self._decided: deque[InputElement] = deque()
        self._recovered: deque[InputInFlight] = deque()
        self._processed_bytes = 0
        self._in_flight: list[InputInFlight] = []
        self._unaligned_since_ms = 0

    @property
    def watermark_ms(self) -> int:
        """How far event time has come at what was read last."""
        return self._valve.watermark_ms

    @property
    def has_next(self) -> bool:
        """Something is there to be read."""
        return bool(self._decided or self._recovered) or self._gates.has_data

    @property
    def has_priority(self) -> bool:
        """Something is there that does not wait for room: a barrier that overtakes data, and what comes of it."""
        return self._gates.has_priority or any(isinstance(element, CheckpointElement) for element in self._decided)

    @property
    def failure(self) -> ChannelFailed | None:
        """Why nothing can be read on, if so."""
        return self._gates.failure

    def request_partitions(self, recovered: Iterable[InputInFlight] = ()) -> list[TaskEffect]:
        """Ask for every subpartition; what was in flight before a failure is read before anything that comes."""
        self._recovered.extend(recovered)
        return self._effects(self._gates.request_partitions())

    def resize(self, buffers: TaskBuffers) -> list[TaskEffect]:
        """The TaskManager has shared its buffers out anew."""
        return self._effects(self._gates.resize(buffers.floating))

    @property
    def buffers_in_use(self) -> int:
        """Batches that have arrived and are not yet processed."""
        return self._gates.buffers_in_use

    def on_connection_failed(self, task_manager: Ref) -> list[TaskEffect]:
        """A TaskManager has ended: what it has not answered it will not answer."""
        return self._effects(self._gates.on_connection_failed(task_manager))

    def handle(self, event: ExchangeEvent, now: int) -> list[TaskEffect]:
        """Something has come from a producer, or is to be asked for again."""
        match event:
            case BufferResponse():
                effects = self._effects(self._gates.on_buffer(event))
                self._check_held_back(now)
                return effects
            case BacklogAnnouncement():
                return self._effects(self._gates.on_backlog(event))
            case ErrorResponse():
                return self._effects(self._gates.on_error(event))
            case PartitionRequestDue(channel=channel):
                return self._effects(self._gates.retry(channel))
            case _:
                assert_never(event)

    def processed(self, channel: int | None) -> list[TaskEffect]:
        """The oldest batch of `channel` that was read is processed."""
        return [] if channel is None else self._effects(self._gates.credit_returned(channel))

    def time_out(self, checkpoint_id: int, now: int) -> None:
        """The delay of a `StartAlignmentTimer` is over."""
        self._perform(self._barriers.time_out(checkpoint_id), now)

    def next(self, now: int) -> InputElement | None:
        """The next element of the line; None while there is none."""
        while not self._decided:
            if self._recovered and not self._gates.has_priority:
                recovered = self._recovered.popleft()
                return BatchArrived(gate=recovered.gate, channel=None, batch=recovered.batch)
            polled = self._gates.poll()
            if polled is None:
                return None
            self._decide(*polled, now)
        return self._decided.popleft()

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._gates.check()
        self._barriers.check()
        self._valve.check()

    def _decide(self, channel: int, buffer: Buffer | BarrierAnnouncement, now: int) -> None:
        match buffer:
            case BatchRef():
                self._processed_bytes += buffer.size_bytes
                arrived = BatchArrived(gate=self._gates.gate_of(channel), channel=channel, batch=buffer)
                self._decided.append(arrived)
            case Watermark():
                self._say(self._valve.on_watermark(channel, buffer))
            case WatermarkStatus():
                self._say(self._valve.on_status(channel, buffer))
            case LatencyMarker():
                self._decided.append(PassedOn(event=buffer))
            case CheckpointBarrier() | CancelCheckpointMarker() | EndOfPartition() | BarrierAnnouncement():
                if not self._barriers.pending_checkpoints:
                    self._processed_bytes = 0
                self._perform(self._barriers.handle(channel, buffer, now), now)
                self._check_held_back(now)
            case EndOfData():
                status = self._gates.end_of_data_status
                if status is not EndOfDataStatus.NOT_END_OF_DATA:
                    self._decided.append(EndOfDataReached(drain=status is EndOfDataStatus.DRAINED))
            case _:
                assert_never(buffer)

    def _say(self, events: list[Watermark | WatermarkStatus]) -> None:
        for event in events:
            match event:
                case Watermark(timestamp_ms=watermark_ms):
                    self._decided.append(WatermarkAdvanced(watermark_ms=watermark_ms))
                case WatermarkStatus():
                    self._decided.append(PassedOn(event=event))
                case _:
                    assert_never(event)

    def _check_held_back(self, now: int) -> None:
        self._perform(self._barriers.held_back(self._gates.held_back_bytes), now)

    def _perform(self, actions: Iterable[BarrierAction], now: int) -> None:
        for action in actions:
            self._act(action, now)

    def _act(self, action: BarrierAction, now: int) -> None:
        match action:
            case TriggerCheckpointOnBarrier(barrier=barrier, alignment_start_ms=start_ms):
                in_flight, self._in_flight = tuple(self._in_flight), []
                self._unaligned_since_ms = start_ms
                alignment = Alignment(duration_ms=now - start_ms, processed_bytes=self._processed_bytes)
                self._decided.append(SnapshotDue(barrier=barrier, alignment=alignment, in_flight=in_flight))
            case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                self._decided.append(SnapshotGivenUp(checkpoint_id=checkpoint_id, reason=reason))
            case BlockChannel(channel=channel):
                self._gates.block(channel)
            case UnblockAllChannels():
                self._gates.unblock_all()
            case StartPersisting(checkpoint_id=checkpoint_id):
                queued = self._gates.start_persisting(checkpoint_id)
                in_channels = [_in_flight(effect) for effect in queued if isinstance(effect, PersistInFlight)]
                self._in_flight = [*self._recovered, *in_channels]
            case StopPersisting(checkpoint_id=checkpoint_id, is_complete=is_complete):
                self._gates.stop_persisting()
                duration_ms = now - self._unaligned_since_ms
                alignment = Alignment(duration_ms=duration_ms, processed_bytes=self._processed_bytes)
                self._decided.append(
                    InFlightComplete(checkpoint_id=checkpoint_id, alignment=alignment)
                    if is_complete
                    else InFlightGivenUp(checkpoint_id=checkpoint_id)
                )
            case PrioritizeBarrier(channel=channel):
                self._gates.prioritize(channel)
            case StartAlignmentTimer():
                self._decided.append(action)
            case _:
                assert_never(action)

    def _effects(self, effects: list[GateEffect]) -> list[TaskEffect]:
        return [performed for effect in effects for performed in self._effect(effect)]

    def _effect(self, effect: GateEffect) -> Iterable[TaskEffect]:
        match effect:
            case RequestPartition():
                request = PartitionRequest(
                    partition_id=effect.partition_id,
                    subpartition=effect.subpartition,
                    credit=effect.credit,
                    consumer=self._consumer,
                )
                return [TellPeer(receiver=effect.task_manager, message=request)]
            case RetryRequest(channel=channel, delay_ms=delay_ms):
                return [RetryPartitionRequest(channel=channel, delay_ms=delay_ms)]
            case TurnAway(message=message):
                return [TellSender(message=message)]
            case TellProducer(task_manager=task_manager, message=message):
                return [TellPeer(receiver=task_manager, message=message)]
            case ReleaseBatch(batch=batch):
                return [TellBridge(message=ReleaseBatches(batch_ids=(batch.batch_id,)))]
            case PersistInFlight(checkpoint_id=checkpoint_id) as persisted:
                return self._channel_state.add_inputs(checkpoint_id, [_in_flight(persisted)])
            case Ignore():
                return [effect]
            case ChannelFailed():
                return []  # kept by the gate: see `failure`
            case _:
                assert_never(effect)


def _barrier_handler(descriptor: TaskDeploymentDescriptor, channels: int) -> CheckpointBarrierHandler:
    if descriptor.checkpointing_mode is CheckpointingMode.AT_LEAST_ONCE:
        return BarrierTracker(channels)
    return BarrierAligner(channels, limit_bytes=descriptor.alignment_limit_bytes)


def _in_flight(persisted: PersistInFlight) -> InputInFlight:
    return InputInFlight(gate=persisted.gate, batch=persisted.batch)
