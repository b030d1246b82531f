"""The inputs of a Task as one queue of elements: batches, watermarks, and actions for checkpoints.

Composes the gate, the barrier handler and the watermark valve. Credits and requests become effects. Channels are
blocked, overtaken and persisted as the barriers demand. Recovered batches, which were in flight when the checkpoint was
taken, are read first. Follows Flink's CheckpointedInputGate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from flykka.actors.machines.attempt.batches import IN_TRANSIT
from flykka.actors.machines.attempt.channel_state import ChannelStateWriter
from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.attempt.time import uses_event_time
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierEvent,
    BarrierTracker,
    BlockChannel,
    CheckpointBarrierHandler,
    PrioritizeBarrier,
    StartPersisting,
    StopPersisting,
    UnblockAllChannels,
)
from flykka.actors.machines.exchange.effects import (
    ChannelFailed,
    GateEffect,
    PersistInFlight,
    ReleaseBatch,
    RequestPartition,
)
from flykka.actors.machines.exchange.input_gate import EndOfDataStatus, InputGate
from flykka.actors.machines.exchange.watermarks import WatermarkValve
from flykka.actors.machines.job_graph.broadcast_inputs import broadcast_gates
from flykka.actors.machines.state.watermarks import restored_input_watermark_ms
from flykka.messages.attempt.commands import InputInFlight, ReleaseBatches
from flykka.messages.graph.job_graph import CheckpointingMode
from flykka.messages.tasks.exchange import (
    BacklogAnnouncement,
    BatchRef,
    BufferResponse,
    CheckpointBarrier,
    EndOfData,
    ErrorResponse,
    LatencyMarker,
    MiniBatchDue,
    PartitionRequest,
    PartitionRequestDue,
    TaskBuffers,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ref import Ref

COALESCED_BYTES = 16 * 1024**2
"""The size in bytes up to which waiting batches are processed by one stage, and so by one Spark job."""
COALESCED_BATCHES = 32
"""The maximum number of batches in one stage, because Spark plans their union."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArrived:
    """A batch whose credit is returned by `processed(channel)`. A recovered batch has no channel.

    The `coalesced` batches follow this one and are processed by the same stage.
    """

    gate: int
    channel: int | None
    batch: BatchRef
    coalesced: tuple[BatchArrived, ...] = ()

    @property
    def channels(self) -> tuple[int | None, ...]:
        return (self.channel, *(each.channel for each in self.coalesced))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAdvanced:
    """Event time has reached `watermark_ms` on all active channels."""

    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedEvent:
    event: WatermarkStatus | LatencyMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfDataReached:
    """Every channel has delivered all its data. Checkpoints may still follow."""

    drain: bool


CheckpointElement = CheckpointBarrier | AbortCheckpointOnBarrier | StopPersisting | StartTimer
"""Actions of the barrier handler for the task. `StopPersisting`: the inputs have stopped persisting batches."""
InputElement = BatchArrived | WatermarkAdvanced | CheckpointElement | ForwardedEvent | EndOfDataReached


def coalesce(
    first: BatchArrived, read: Callable[[], InputElement | None], *, ignores_watermarks: bool
) -> tuple[tuple[BatchArrived, ...], tuple[InputElement, ...]]:
    """Read the elements after a batch. Returns the batches for the same stage, then the other elements, in order.

    A watermark between batches ends the stage, because the rows after it may be late. If the task `ignores_watermarks`,
    only the last watermark follows the stage.
    """
    batches: list[BatchArrived] = []
    watermark: tuple[InputElement, ...] = ()
    size_bytes = first.batch.size_bytes
    while size_bytes < COALESCED_BYTES and len(batches) < COALESCED_BATCHES - 1:
        match read():
            case BatchArrived(batch=batch) as arrived:
                size_bytes += batch.size_bytes
                batches.append(arrived)
            case WatermarkAdvanced() as advanced if ignores_watermarks:
                watermark = (advanced,)
            case None:
                break
            case element:
                return tuple(batches), (*watermark, element)
    return tuple(batches), watermark


ExchangeEvent = BacklogAnnouncement | ErrorResponse | PartitionRequestDue
InputEvent = Watermark | WatermarkStatus | LatencyMarker | EndOfData


class TaskInputs:
    __slots__ = (
        "_broadcast_variables",
        "_channel_state",
        "_checkpoint_elements",
        "_coalesces",
        "_consumer",
        "_elements",
        "_ignores_watermarks",
        "_in_flight",
        "_is_mini_batch_due",
        "_mini_batch_latency_ms",
        "_recovered",
        "_valve",
        "_watermark_ms",
        "barriers",
        "gate",
        "processed_bytes",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor, consumer: Ref, channel_state: ChannelStateWriter) -> None:
        self._broadcast_variables = broadcast_gates(descriptor.vertex)
        self.gate = InputGate(descriptor.inputs, buffers=descriptor.buffers, read_first=self._broadcast_variables)
        self.barriers = _barrier_handler(descriptor, len(self.gate.channels))
        self._valve = WatermarkValve(len(self.gate.channels), restored_input_watermark_ms(descriptor))
        for channel in range(len(self.gate.channels)):
            if self._is_of_broadcast_variable(channel):
                self._valve.on_status(channel, WatermarkStatus(idle=True))
        operators = descriptor.vertex.operators
        self._coalesces = descriptor.coalesces_batches and operators[0].kind.coalesces
        has_mini_batches = self._coalesces and operators[0].kind.has_mini_batches
        self._mini_batch_latency_ms = descriptor.mini_batch_latency_ms if has_mini_batches else 0
        self._is_mini_batch_due = False
        # Results of incremental operators have no event time, so watermarks may follow them later.
        is_read = bool(descriptor.outputs) and not self._mini_batch_latency_ms
        self._ignores_watermarks = not uses_event_time(descriptor.vertex) and not is_read
        self._consumer = consumer
        self._channel_state = channel_state
        self._elements: deque[InputElement] = deque()
        # Elements of checkpoints do not wait for room for a stage; all other elements do.
        self._checkpoint_elements: deque[CheckpointElement] = deque()
        self._recovered: deque[InputInFlight] = deque()
        self._in_flight: tuple[InputInFlight, ...] = ()
        self.processed_bytes = 0
        """The number of bytes read since the alignment of the barriers began."""
        self._watermark_ms = self._valve.watermark_ms

    @property
    def watermark_ms(self) -> int:
        """The watermark at the last element that was read. The valve may be ahead, because `coalesce` reads ahead."""
        return self._watermark_ms

    @property
    def has_next(self) -> bool:
        return bool(self._elements or self._checkpoint_elements or self._recovered) or self.gate.has_data

    @property
    def has_priority(self) -> bool:
        return bool(self._checkpoint_elements) or self.gate.has_priority

    @property
    def waits_for_more(self) -> bool:
        """True if the waiting batches are small, so that more should be coalesced while the current stage runs."""
        return self._coalesces and 2 * self.gate.waiting_bytes < COALESCED_BYTES

    @property
    def collects_mini_batch(self) -> bool:
        """True if the waiting batches stay in their channels, so that a stage processes all batches of a checkpoint."""
        if not self._mini_batch_latency_ms or self._is_mini_batch_due or self._elements or self._recovered:
            return False
        # Without a waiting batch no timer runs, and events must not wait for batches.
        has_room = 0 < self.gate.waiting_batches < COALESCED_BATCHES and self.gate.waiting_bytes < COALESCED_BYTES
        return has_room and self.gate.awaits_barriers

    @property
    def failure(self) -> ChannelFailed | None:
        return self.gate.failure

    def request_partitions(self, recovered: Iterable[InputInFlight] = ()) -> list[TaskEffect]:
        self._recovered.extend(recovered)
        return self._effects(self.gate.request_partitions())

    def resize(self, buffers: TaskBuffers) -> list[TaskEffect]:
        return self._effects(self.gate.resize(buffers.floating))

    def on_connection_failed(self, task_manager: Ref) -> list[TaskEffect]:
        return self._effects(self.gate.on_connection_failed(task_manager))

    def on_buffer(self, response: BufferResponse) -> list[TaskEffect]:
        had_batches = self.gate.waiting_batches > 0
        effects = self._effects(self.gate.on_buffer(response))
        if self._mini_batch_latency_ms and not had_batches and self.gate.waiting_batches:
            self._is_mini_batch_due = False
            due = StartTimer(key="mini-batch", delay_ms=self._mini_batch_latency_ms, message=MiniBatchDue())
            effects.append(due)
        return effects

    def on_mini_batch_due(self) -> None:
        """Let the batches that wait now be read."""
        self._is_mini_batch_due = self.gate.waiting_batches > 0

    def handle(self, event: ExchangeEvent) -> list[TaskEffect]:
        match event:
            case BacklogAnnouncement():
                return self._effects(self.gate.on_backlog(event))
            case ErrorResponse():
                return self._effects(self.gate.on_error(event))
            case PartitionRequestDue(channel=channel):
                return self._effects(self.gate.retry(channel))
            case _:
                assert_never(event)

    def processed(self, channels: Iterable[int | None]) -> list[TaskEffect]:
        """Return the credits of processed batches: for each channel, the credit of its oldest batch that was read."""
        returned = (self.gate.credit_returned(channel) for channel in channels if channel is not None)
        return self._effects([effect for effects in returned for effect in effects])

    def time_out(self, checkpoint_id: int) -> None:
        self._perform(self.barriers.time_out(checkpoint_id))

    def drain_in_flight(self) -> tuple[InputInFlight, ...]:
        in_flight, self._in_flight = self._in_flight, ()
        return in_flight

    def next(self, now: int, *, only_priority: bool = False) -> InputElement | None:
        element = self._next(now, only_priority=only_priority)
        match element:
            case BatchArrived(gate=gate) if self._coalesces and gate not in self._broadcast_variables:
                return self._coalesced(element, now)
            case WatermarkAdvanced(watermark_ms=watermark_ms):
                self._watermark_ms = watermark_ms
        return element

    def _next(self, now: int, *, only_priority: bool = False) -> InputElement | None:
        while only_priority or not self._elements:
            match self._poll(now, only_priority=only_priority):
                case None:
                    return None
                case (int() as channel, event):
                    self._on_event(channel, event)
                case element:
                    return element
        return self._elements.popleft()

    def check(self) -> None:
        self.gate.check()
        self.barriers.check()
        self._valve.check()

    def _coalesced(self, first: BatchArrived, now: int) -> BatchArrived:
        batches, rest = coalesce(first, lambda: self._next(now), ignores_watermarks=self._ignores_watermarks)
        for element in reversed(rest):
            if isinstance(element, CheckpointElement):
                self._checkpoint_elements.appendleft(element)
            else:
                self._elements.appendleft(element)
        return replace(first, coalesced=batches)

    def _poll(
        self, now: int, *, only_priority: bool = False
    ) -> CheckpointElement | BatchArrived | tuple[int, InputEvent] | None:
        while not self._checkpoint_elements:
            if only_priority and not self.gate.has_priority:
                return None
            if self._recovered and not self.gate.has_priority:
                recovered = self._recovered.popleft()
                return BatchArrived(gate=recovered.gate, channel=None, batch=recovered.batch)
            polled = self.gate.poll()
            if polled is None:
                return None
            channel, buffer = polled
            if isinstance(buffer, BatchRef):
                self.processed_bytes += buffer.size_bytes
                return BatchArrived(gate=self.gate.gate_of(channel), channel=channel, batch=buffer)
            if not isinstance(buffer, BarrierEvent):
                return channel, buffer
            self._on_barrier_event(channel, buffer, now)
        return self._checkpoint_elements.popleft()

    def _on_barrier_event(self, channel: int, event: BarrierEvent, now: int) -> None:
        if not self.barriers.pending_checkpoints:
            self.processed_bytes = 0
        self._perform(self.barriers.handle(channel, event, now))

    def _perform(self, actions: Iterable[BarrierAction]) -> None:
        for action in actions:
            self._act(action)

    def _act(self, action: BarrierAction) -> None:
        match action:
            # The most frequent actions come first, because a match tests class by class.
            case BlockChannel(channel=channel):
                self.gate.block(channel)
            case CheckpointBarrier() | AbortCheckpointOnBarrier() | StartTimer():
                self._checkpoint_elements.append(action)
            case UnblockAllChannels():
                self.gate.unblock_all()
            case StartPersisting(checkpoint_id=checkpoint_id):
                in_channels = map(_in_flight, self.gate.start_persisting(checkpoint_id))
                self._in_flight = (*self._recovered, *in_channels)
            case StopPersisting():
                self.gate.stop_persisting()
                self._checkpoint_elements.append(action)
            case PrioritizeBarrier(channel=channel, checkpoint_id=checkpoint_id):
                self.gate.prioritize(channel, checkpoint_id)
            case _:
                assert_never(action)

    def _on_event(self, channel: int, event: InputEvent) -> None:
        match event:
            case Watermark() | WatermarkStatus() | LatencyMarker() if self._is_of_broadcast_variable(channel):
                pass  # Broadcast variables have no event time.
            case Watermark():
                self._add(self._valve.on_watermark(channel, event))
            case WatermarkStatus():
                self._add(self._valve.on_status(channel, event))
            case LatencyMarker():
                self._elements.append(ForwardedEvent(event=event))
            case EndOfData():
                status = self.gate.end_of_data_status
                if status is not EndOfDataStatus.NOT_END_OF_DATA:
                    self._elements.append(EndOfDataReached(drain=status is EndOfDataStatus.DRAINED))
            case _:
                assert_never(event)

    def _is_of_broadcast_variable(self, channel: int) -> bool:
        return self.gate.gate_of(channel) in self._broadcast_variables

    def _add(self, events: list[Watermark | WatermarkStatus]) -> None:
        for event in events:
            if isinstance(event, Watermark):
                self._elements.append(WatermarkAdvanced(watermark_ms=event.timestamp_ms))
            else:
                self._elements.append(ForwardedEvent(event=event))

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
                    reconnects=effect.reconnects,
                )
                return [Tell(to=effect.task_manager, message=request)]
            case ReleaseBatch(batch=batch):
                return [Tell(to=Role.BRIDGE, message=ReleaseBatches(holder=IN_TRANSIT, batch_ids=(batch.batch_id,)))]
            case PersistInFlight(checkpoint_id=checkpoint_id):
                return self._channel_state.add_inputs(checkpoint_id, [_in_flight(effect)])
            case Tell() | StartTimer() | Ignore():
                return [effect]
            case ChannelFailed():
                return []  # The gate records the failure: see `failure`.
            case _:
                assert_never(effect)


def _in_flight(effect: PersistInFlight) -> InputInFlight:
    return InputInFlight(gate=effect.gate, batch=effect.batch)


def _barrier_handler(descriptor: TaskDeploymentDescriptor, channels: int) -> CheckpointBarrierHandler:
    if descriptor.checkpointing_mode is CheckpointingMode.AT_LEAST_ONCE:
        return BarrierTracker(channels)
    return BarrierAligner(channels)
