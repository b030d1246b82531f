"""Everything a Task reads, as one line of elements: what arrived, how far event time is, what the barriers ask for.

Composes the gates, the barrier handler and the watermark valve; credits and requests go out as effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from flykka.actors.exchange.barriers import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierEvent,
    BlockChannel,
    TriggerCheckpointOnBarrier,
    UnblockAllChannels,
)
from flykka.actors.exchange.effects import (
    ChannelFailed,
    GateEffect,
    ReleaseBatch,
    RequestPartition,
    RetryRequest,
    TellProducer,
)
from flykka.actors.exchange.input_gate import EndOfDataStatus
from flykka.actors.exchange.union_input_gate import UnionInputGate
from flykka.actors.exchange.watermarks import WatermarkValve
from flykka.actors.execution.effects import RetryPartitionRequest, TaskEffect, TellBridge, TellPeer
from flykka.actors.ignore import Ignore
from flykka.messages.batch import BatchRef
from flykka.messages.checkpoint import CheckpointDeclineReason
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
    Watermark,
    WatermarkStatus,
)
from flykka.messages.ref import Ref
from flykka.messages.stage import ReleaseBatches
from flykka.messages.task import InputGateDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArrived:
    """A batch is next; its credit goes back with `processed(channel)`."""

    gate: int
    channel: int
    batch: BatchRef


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAdvanced:
    """Event time has come to `watermark_ms` on all channels that count."""

    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDue:
    """The barriers of a checkpoint are aligned."""

    barrier: CheckpointBarrier
    alignment_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGivenUp:
    """A checkpoint is not going to happen here."""

    checkpoint_id: int
    reason: CheckpointDeclineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOn:
    """An event that only goes down."""

    event: WatermarkStatus | LatencyMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfDataReached:
    """Every channel has delivered all its data; checkpoints may still come."""

    drain: bool


InputElement = BatchArrived | WatermarkAdvanced | SnapshotDue | SnapshotGivenUp | PassedOn | EndOfDataReached
ExchangeEvent = BufferResponse | BacklogAnnouncement | ErrorResponse | PartitionRequestDue


class TaskInputs:
    """The inputs of one attempt, whose Task is `consumer`."""

    def __init__(self, descriptors: Sequence[InputGateDescriptor], consumer: Ref) -> None:
        self._gates = UnionInputGate(descriptors)
        self._consumer = consumer
        self._barriers = BarrierAligner(self._gates.channel_count)
        self._valve = WatermarkValve(self._gates.channel_count)
        self._decided: deque[InputElement] = deque()

    @property
    def watermark_ms(self) -> int:
        """How far event time has come at what was read last."""
        return self._valve.watermark_ms

    @property
    def has_next(self) -> bool:
        """Something is there to be read."""
        return bool(self._decided) or self._gates.has_data

    @property
    def failure(self) -> ChannelFailed | None:
        """Why nothing can be read on, if so."""
        return self._gates.failure

    def request_partitions(self) -> list[TaskEffect]:
        """Ask for every subpartition."""
        return self._effects(self._gates.request_partitions())

    def handle(self, event: ExchangeEvent) -> list[TaskEffect]:
        """Something has come from a producer, or is to be asked for again."""
        match event:
            case BufferResponse():
                return self._effects(self._gates.on_buffer(event))
            case BacklogAnnouncement():
                return self._effects(self._gates.on_backlog(event))
            case ErrorResponse():
                return self._effects(self._gates.on_error(event))
            case PartitionRequestDue(channel=channel):
                return self._effects(self._gates.retry(channel))
            case _:
                assert_never(event)

    def processed(self, channel: int) -> list[TaskEffect]:
        """The oldest batch of `channel` that was read is processed."""
        return self._effects(self._gates.credit_returned(channel))

    def next(self, now: int) -> InputElement | None:
        """The next element of the line; None while there is none."""
        while not self._decided:
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

    def _decide(self, channel: int, buffer: Buffer, now: int) -> None:
        match buffer:
            case BatchRef():
                arrived = BatchArrived(gate=self._gates.gate_of(channel), channel=channel, batch=buffer)
                self._decided.append(arrived)
            case Watermark():
                self._say(self._valve.on_watermark(channel, buffer))
            case WatermarkStatus():
                self._say(self._valve.on_status(channel, buffer))
            case LatencyMarker():
                self._decided.append(PassedOn(event=buffer))
            case CheckpointBarrier() | CancelCheckpointMarker() | EndOfPartition():
                self._align(channel, buffer, now)
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

    def _align(self, channel: int, event: BarrierEvent, now: int) -> None:
        for action in self._barriers.handle(channel, event, now):
            self._perform(action, now)

    def _perform(self, action: BarrierAction, now: int) -> None:
        match action:
            case TriggerCheckpointOnBarrier(barrier=barrier, alignment_start_ms=start_ms):
                self._decided.append(SnapshotDue(barrier=barrier, alignment_ms=now - start_ms))
            case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                self._decided.append(SnapshotGivenUp(checkpoint_id=checkpoint_id, reason=reason))
            case BlockChannel(channel=channel):
                self._gates.block(channel)
            case UnblockAllChannels():
                self._gates.unblock_all()
            case _:
                assert_never(action)

    def _effects(self, effects: list[GateEffect]) -> list[TaskEffect]:
        return [performed for effect in effects if (performed := self._effect(effect)) is not None]

    def _effect(self, effect: GateEffect) -> TaskEffect | None:
        match effect:
            case RequestPartition():
                request = PartitionRequest(
                    partition_id=effect.partition_id,
                    subpartition=effect.subpartition,
                    credit=effect.credit,
                    consumer=self._consumer,
                )
                return TellPeer(receiver=effect.task_manager, message=request)
            case RetryRequest(channel=channel, delay_ms=delay_ms):
                return RetryPartitionRequest(channel=channel, delay_ms=delay_ms)
            case TellProducer(task_manager=task_manager, message=message):
                return TellPeer(receiver=task_manager, message=message)
            case ReleaseBatch(batch=batch):
                return TellBridge(message=ReleaseBatches(batch_ids=(batch.batch_id,)))
            case Ignore():
                return effect
            case ChannelFailed():
                return None  # kept by the gate: see `failure`
            case _:
                assert_never(effect)
