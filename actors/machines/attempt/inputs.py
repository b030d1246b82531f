"""Everything a Task reads, as one line of elements: what arrived, how far event time is, what the barriers ask for.

Composes the gate, the barrier handler and the watermark valve; credits and requests go out as effects. What a barrier
blocks, lets overtake and persists is done here, and it becomes an element that says what the task is to do for a
checkpoint. Batches that were in flight when the job was restored are read before anything else. Follows Flink's
CheckpointedInputGate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from flykka.actors.machines.attempt.batches import IN_TRANSIT
from flykka.actors.machines.attempt.channel_state import ChannelStateWriter
from flykka.actors.machines.attempt.checkpoints import Alignment
from flykka.actors.machines.attempt.coalescing import COALESCED_BYTES, batches_behind
from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.input_elements import (
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
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.actors.machines.exchange.barrier_aligner import BarrierAligner
from flykka.actors.machines.exchange.barrier_tracker import BarrierTracker
from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierEvent,
    BlockChannel,
    CheckpointBarrierHandler,
    PrioritizeBarrier,
    StartPersisting,
    StopPersisting,
    TriggerCheckpointOnBarrier,
    UnblockAllChannels,
)
from flykka.actors.machines.exchange.effects import (
    ChannelFailed,
    GateEffect,
    PersistInFlight,
    ReleaseBatch,
    RequestPartition,
)
from flykka.actors.machines.exchange.input_channel import InputChannel
from flykka.actors.machines.exchange.input_gate import EndOfDataStatus, InputGate
from flykka.actors.machines.exchange.watermarks import WatermarkValve
from flykka.actors.machines.job_graph.broadcast_inputs import broadcast_gates
from flykka.actors.machines.state.watermarks import restored_input_watermark_ms
from flykka.messages.attempt.commands import ReleaseBatches
from flykka.messages.attempt.values import InputInFlight
from flykka.messages.graph.job_graph import CheckpointingMode
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.exchange import (
    BacklogAnnouncement,
    BufferResponse,
    EndOfData,
    ErrorResponse,
    LatencyMarker,
    PartitionRequest,
    PartitionRequestDue,
    TaskBuffers,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ref import Ref

ExchangeEvent = BacklogAnnouncement | ErrorResponse | PartitionRequestDue


InputEvent = Watermark | WatermarkStatus | LatencyMarker | EndOfData
"""Elements that do not concern checkpoints."""


class TaskInputs:
    """The inputs of one attempt, whose Task is `consumer`."""

    __slots__ = (
        "_alignment_start_ms",
        "_barriers",
        "_channel_state",
        "_coalesces",
        "_consumer",
        "_decided",
        "_for_checkpoints",
        "_gate",
        "_ignores_watermarks",
        "_in_flight",
        "_processed_bytes",
        "_recovered",
        "_valve",
        "_variables",
        "_watermark_ms",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor, consumer: Ref, channel_state: ChannelStateWriter) -> None:
        self._variables = broadcast_gates(descriptor.vertex)
        self._gate = InputGate(descriptor.inputs, buffers=descriptor.buffers, read_first=self._variables)
        self._barriers = _barrier_handler(descriptor, len(self._gate.channels))
        self._valve = WatermarkValve(len(self._gate.channels), restored_input_watermark_ms(descriptor))
        for channel in range(len(self._gate.channels)):
            if self._is_of_variable(channel):
                self._valve.on_status(channel, WatermarkStatus(idle=True))
        operators = descriptor.vertex.operators
        self._coalesces = descriptor.coalesces_batches and operators[0].kind.coalesces
        uses_event_time = any(operator.kind.uses_event_time for operator in operators)
        self._ignores_watermarks = not uses_event_time and not descriptor.outputs
        self._consumer = consumer
        self._channel_state = channel_state
        self._decided: deque[InputElement] = deque()
        # These do not wait for room behind the task, as the others do.
        self._for_checkpoints: deque[CheckpointElement] = deque()
        self._recovered: deque[InputInFlight] = deque()
        self._in_flight: tuple[InputInFlight, ...] = ()
        self._alignment_start_ms = 0
        self._processed_bytes = 0
        self._watermark_ms = self._valve.watermark_ms

    @property
    def channels(self) -> tuple[InputChannel, ...]:
        """The channels of all inputs, by number."""
        return self._gate.channels

    @property
    def aligning(self) -> int | None:
        """The newest checkpoint whose barriers are coming together."""
        return next(reversed(self._barriers.pending_checkpoints), None)

    @property
    def missing_channels(self) -> frozenset[int]:
        """The channels whose barrier of that checkpoint has not been read."""
        return self._barriers.missing_channels

    @property
    def blocked_channels(self) -> frozenset[int]:
        """The channels that are not read until the others have come as far."""
        return self._barriers.blocked_channels

    @property
    def watermark_ms(self) -> int:
        """The watermark at the element read last; that of the valve is ahead of it where elements were looked at."""
        return self._watermark_ms

    @property
    def has_next(self) -> bool:
        """Something is there to be read."""
        return bool(self._decided or self._for_checkpoints or self._recovered) or self._gate.has_data

    @property
    def has_priority(self) -> bool:
        """Something is there that does not wait for room: a barrier that overtakes data, and what comes of it."""
        return bool(self._for_checkpoints) or self._gate.has_priority

    @property
    def waits_for_more(self) -> bool:
        """Batches wait that are little together: behind a stage that reads they are one, with others that come."""
        return self._coalesces and 2 * self._gate.waiting_bytes < COALESCED_BYTES

    @property
    def failure(self) -> ChannelFailed | None:
        """The reason why no more can be read, if there is one."""
        return self._gate.failure

    def request_partitions(self, recovered: Iterable[InputInFlight] = ()) -> list[TaskEffect]:
        """Ask for every subpartition; what was in flight before a failure is read before anything that comes."""
        self._recovered.extend(recovered)
        return self._effects(self._gate.request_partitions())

    def resize(self, buffers: TaskBuffers) -> list[TaskEffect]:
        """The TaskManager has shared its buffers out again."""
        return self._effects(self._gate.resize(buffers.floating))

    @property
    def buffers_in_use(self) -> int:
        """Batches that have arrived and are not yet processed."""
        return self._gate.buffers_in_use

    def on_connection_failed(self, task_manager: Ref) -> list[TaskEffect]:
        """A TaskManager has ended: what it has not answered it will not answer."""
        return self._effects(self._gate.on_connection_failed(task_manager))

    def on_buffer(self, response: BufferResponse) -> list[TaskEffect]:
        """An element has come from a producer."""
        return self._effects(self._gate.on_buffer(response))

    def handle(self, event: ExchangeEvent) -> list[TaskEffect]:
        """A producer has said something else, or is to be asked again."""
        match event:
            case BacklogAnnouncement():
                return self._effects(self._gate.on_backlog(event))
            case ErrorResponse():
                return self._effects(self._gate.on_error(event))
            case PartitionRequestDue(channel=channel):
                return self._effects(self._gate.retry(channel))
            case _:
                assert_never(event)

    def processed(self, channels: Iterable[int | None]) -> list[TaskEffect]:
        """The oldest batch that was read of each of the channels is processed."""
        returned = (self._gate.credit_returned(channel) for channel in channels if channel is not None)
        return self._effects([effect for effects in returned for effect in effects])

    def time_out(self, checkpoint_id: int, now: int) -> None:
        """The alignment of the checkpoint has timed out."""
        self._perform(self._barriers.time_out(checkpoint_id), now)

    def next(self, now: int, *, only_priority: bool = False) -> InputElement | None:
        """The next element of the line; None while there is none, or `only_priority` none that overtakes data."""
        element = self._next(now, only_priority=only_priority)
        match element:
            case BatchArrived(gate=gate) if self._coalesces and gate not in self._variables:
                return self._with_those_behind(element, now)
            case WatermarkAdvanced(watermark_ms=watermark_ms):
                self._watermark_ms = watermark_ms
        return element

    def _next(self, now: int, *, only_priority: bool = False) -> InputElement | None:
        while only_priority or not self._decided:
            match self._poll(now, only_priority=only_priority):
                case None:
                    return None
                case (int() as channel, event):
                    self._decide(channel, event)
                case element:
                    return element
        return self._decided.popleft()

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._gate.check()
        self._barriers.check()
        self._valve.check()

    def _with_those_behind(self, first: BatchArrived, now: int) -> BatchArrived:
        behind, left = batches_behind(first, lambda: self._next(now), ignores_watermarks=self._ignores_watermarks)
        for element in reversed(left):
            if isinstance(element, CheckpointElement):
                self._for_checkpoints.appendleft(element)
            else:
                self._decided.appendleft(element)
        return replace(first, behind=behind)

    def _poll(
        self, now: int, *, only_priority: bool = False
    ) -> CheckpointElement | BatchArrived | tuple[int, InputEvent] | None:
        """The next element, an event with its channel; None while there is none, or none that overtakes data."""
        while not self._for_checkpoints:
            if only_priority and not self._gate.has_priority:
                return None
            if self._recovered and not self._gate.has_priority:
                recovered = self._recovered.popleft()
                return BatchArrived(gate=recovered.gate, channel=None, batch=recovered.batch)
            polled = self._gate.poll()
            if polled is None:
                return None
            channel, buffer = polled
            if isinstance(buffer, BatchRef):
                self._processed_bytes += buffer.size_bytes
                return BatchArrived(gate=self._gate.gate_of(channel), channel=channel, batch=buffer)
            if not isinstance(buffer, BarrierEvent):
                return channel, buffer
            self._on_barrier_event(channel, buffer, now)
        return self._for_checkpoints.popleft()

    def _on_barrier_event(self, channel: int, event: BarrierEvent, now: int) -> None:
        if not self._barriers.pending_checkpoints:
            self._processed_bytes = 0
        self._perform(self._barriers.handle(channel, event, now), now)

    def _perform(self, actions: Iterable[BarrierAction], now: int) -> None:
        for action in actions:
            self._act(action, now)

    def _act(self, action: BarrierAction, now: int) -> None:
        match action:
            # What comes with almost every barrier first: a match asks class by class.
            case BlockChannel(channel=channel):
                self._gate.block(channel)
            case TriggerCheckpointOnBarrier(barrier=barrier, alignment_start_ms=start_ms):
                self._alignment_start_ms = start_ms
                due = SnapshotDue(barrier=barrier, alignment=self._alignment(now), in_flight=self._in_flight)
                self._in_flight = ()
                self._for_checkpoints.append(due)
            case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                self._for_checkpoints.append(SnapshotGivenUp(checkpoint_id=checkpoint_id, reason=reason))
            case UnblockAllChannels():
                self._gate.unblock_all()
            case StartPersisting(checkpoint_id=checkpoint_id):
                in_channels = map(_in_flight, self._gate.start_persisting(checkpoint_id))
                self._in_flight = (*self._recovered, *in_channels)
            case StopPersisting(checkpoint_id=checkpoint_id, is_complete=True):
                self._gate.stop_persisting()
                self._for_checkpoints.append(
                    InFlightComplete(checkpoint_id=checkpoint_id, alignment=self._alignment(now))
                )
            case StopPersisting(checkpoint_id=checkpoint_id):
                self._gate.stop_persisting()
                self._for_checkpoints.append(InFlightGivenUp(checkpoint_id=checkpoint_id))
            case PrioritizeBarrier(channel=channel, checkpoint_id=checkpoint_id):
                self._gate.prioritize(channel, checkpoint_id)
            case StartTimer():
                self._for_checkpoints.append(action)
            case _:
                assert_never(action)

    def _alignment(self, now: int) -> Alignment:
        return Alignment(duration_ms=now - self._alignment_start_ms, processed_bytes=self._processed_bytes)

    def _decide(self, channel: int, event: InputEvent) -> None:
        match event:
            case Watermark() | WatermarkStatus() | LatencyMarker() if self._is_of_variable(channel):
                pass  # Broadcast variables have no event time.
            case Watermark():
                self._say(self._valve.on_watermark(channel, event))
            case WatermarkStatus():
                self._say(self._valve.on_status(channel, event))
            case LatencyMarker():
                self._decided.append(PassedOn(event=event))
            case EndOfData():
                status = self._gate.end_of_data_status
                if status is not EndOfDataStatus.NOT_END_OF_DATA:
                    self._decided.append(EndOfDataReached(drain=status is EndOfDataStatus.DRAINED))
            case _:
                assert_never(event)

    def _is_of_variable(self, channel: int) -> bool:
        return self._gate.gate_of(channel) in self._variables

    def _say(self, events: list[Watermark | WatermarkStatus]) -> None:
        for event in events:
            match event:
                case Watermark(timestamp_ms=watermark_ms):
                    self._decided.append(WatermarkAdvanced(watermark_ms=watermark_ms))
                case WatermarkStatus():
                    self._decided.append(PassedOn(event=event))
                case _:
                    assert_never(event)

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
            case PersistInFlight(checkpoint_id=checkpoint_id) as persisted:
                return self._channel_state.add_inputs(checkpoint_id, [_in_flight(persisted)])
            case Tell() | StartTimer() | Ignore():
                return [effect]
            case ChannelFailed():
                return []  # kept by the gate: see `failure`
            case _:
                assert_never(effect)


def _in_flight(persisted: PersistInFlight) -> InputInFlight:
    return InputInFlight(gate=persisted.gate, batch=persisted.batch)


def _barrier_handler(descriptor: TaskDeploymentDescriptor, channels: int) -> CheckpointBarrierHandler:
    if descriptor.checkpointing_mode is CheckpointingMode.AT_LEAST_ONCE:
        return BarrierTracker(channels)
    return BarrierAligner(channels)
