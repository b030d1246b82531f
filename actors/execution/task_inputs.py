"""Everything a Task reads, as one line of elements: what arrived, how far event time is, what the barriers ask for.

Composes the gates, the barrier handler and the watermark valve; credits and requests go out as effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import assert_never

from flykka.actors.exchange.effects import (
    ChannelFailed,
    GateEffect,
    GiveCredit,
    PersistInFlight,
    ReleaseBatch,
    RequestPartition,
    RetryRequest,
    TurnAway,
)
from flykka.actors.exchange.input_gate import EndOfDataStatus
from flykka.actors.exchange.watermarks import WatermarkValve
from flykka.actors.execution.channel_state import ChannelStateWriter
from flykka.actors.execution.checkpointed_input_gate import CheckpointedInputGate, InputEvent, in_flight
from flykka.actors.execution.effects import (
    RetryPartitionRequest,
    TaskEffect,
    TellBridge,
    TellPeer,
    TellProducer,
    TellSender,
)
from flykka.actors.execution.input_elements import (
    EndOfDataReached,
    InputElement,
    PassedOn,
    WatermarkAdvanced,
)
from flykka.actors.ignore import Ignore
from flykka.messages.exchange import (
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
from flykka.messages.ref import Ref
from flykka.messages.stage import InputInFlight, ReleaseBatches
from flykka.messages.task import TaskDeploymentDescriptor

ExchangeEvent = BufferResponse | BacklogAnnouncement | ErrorResponse | PartitionRequestDue


class TaskInputs:
    """The inputs of one attempt, whose Task is `consumer`."""

    __slots__ = ("_channel_state", "_checkpointed", "_consumer", "_decided", "_gates", "_valve")

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, consumer: Ref, channel_state: ChannelStateWriter | None = None
    ) -> None:
        self._checkpointed = CheckpointedInputGate(descriptor)
        self._gates = self._checkpointed.gates
        self._consumer = consumer
        self._channel_state = channel_state or ChannelStateWriter()
        self._valve = WatermarkValve(len(self._gates.channels))
        self._decided: deque[InputElement] = deque()

    @property
    def checkpointed(self) -> CheckpointedInputGate:
        """The gates and their barriers."""
        return self._checkpointed

    @property
    def watermark_ms(self) -> int:
        """How far event time has come at what was read last."""
        return self._valve.watermark_ms

    @property
    def has_next(self) -> bool:
        """Something is there to be read."""
        return bool(self._decided) or self._checkpointed.has_data

    @property
    def has_priority(self) -> bool:
        """Something is there that does not wait for room: a barrier that overtakes data, and what comes of it."""
        return self._checkpointed.has_priority

    @property
    def failure(self) -> ChannelFailed | None:
        """Why nothing can be read on, if so."""
        return self._gates.failure

    def request_partitions(self, recovered: Iterable[InputInFlight] = ()) -> list[TaskEffect]:
        """Ask for every subpartition; what was in flight before a failure is read before anything that comes."""
        self._checkpointed.recover(recovered)
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
                return self._effects(self._gates.on_buffer(event))
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
        self._checkpointed.time_out(checkpoint_id, now)

    def next(self, now: int, *, only_priority: bool = False) -> InputElement | None:
        """The next element of the line; None while there is none, or `only_priority` none that overtakes data."""
        while only_priority or not self._decided:
            match self._checkpointed.poll(now, only_priority=only_priority):
                case None:
                    return None
                case (int() as channel, event):
                    self._decide(channel, event)
                case element:
                    return element
        return self._decided.popleft()

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._checkpointed.check()
        self._valve.check()

    def _decide(self, channel: int, event: InputEvent) -> None:
        match event:
            case Watermark():
                self._say(self._valve.on_watermark(channel, event))
            case WatermarkStatus():
                self._say(self._valve.on_status(channel, event))
            case LatencyMarker():
                self._decided.append(PassedOn(event=event))
            case EndOfData():
                status = self._gates.end_of_data_status
                if status is not EndOfDataStatus.NOT_END_OF_DATA:
                    self._decided.append(EndOfDataReached(drain=status is EndOfDataStatus.DRAINED))
            case _:
                assert_never(event)

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
                )
                return [TellPeer(receiver=effect.task_manager, message=request)]
            case RetryRequest(channel=channel, delay_ms=delay_ms):
                return [RetryPartitionRequest(channel=channel, delay_ms=delay_ms)]
            case TurnAway(message=message):
                return [TellSender(message=message)]
            case GiveCredit(message=message):
                return [TellProducer(message=message)]
            case ReleaseBatch(batch=batch):
                return [TellBridge(message=ReleaseBatches(batch_ids=(batch.batch_id,)))]
            case PersistInFlight(checkpoint_id=checkpoint_id) as persisted:
                return self._channel_state.add_inputs(checkpoint_id, [in_flight(persisted)])
            case Ignore():
                return [effect]
            case ChannelFailed():
                return []  # kept by the gate: see `failure`
            case _:
                assert_never(effect)
