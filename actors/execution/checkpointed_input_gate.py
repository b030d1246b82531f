"""The gates of a task together with its barriers: what a barrier blocks, lets overtake and persists is done here.

Barriers become elements that say what the task is to do for a checkpoint; batches and other events come out as they are
read. Batches that were in flight when the job was restored are read before anything else. Follows Flink's
CheckpointedInputGate.
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
    BarrierEvent,
    BlockChannel,
    CheckpointBarrierHandler,
    PrioritizeBarrier,
    StartAlignmentTimer,
    StartPersisting,
    StopPersisting,
    TriggerCheckpointOnBarrier,
    UnblockAllChannels,
)
from flykka.actors.exchange.effects import PersistInFlight
from flykka.actors.exchange.input_gate import InputGate
from flykka.actors.execution.input_elements import (
    BatchArrived,
    CheckpointElement,
    InFlightComplete,
    InFlightGivenUp,
    SnapshotDue,
    SnapshotGivenUp,
)
from flykka.actors.execution.snapshots import Alignment
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import EndOfData, LatencyMarker, Watermark, WatermarkStatus
from flykka.messages.job_graph import CheckpointingMode
from flykka.messages.stage import InputInFlight
from flykka.messages.task import TaskDeploymentDescriptor

InputEvent = Watermark | WatermarkStatus | LatencyMarker | EndOfData
"""What is no matter of checkpoints."""


class CheckpointedInputGate:
    """The gates of one attempt, read with their barriers minded. What arrives is given to `gates`."""

    __slots__ = (
        "_alignment_start_ms",
        "_barriers",
        "_decided",
        "_in_flight",
        "_processed_bytes",
        "_recovered",
        "gates",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self.gates = InputGate(descriptor.inputs, buffers=descriptor.buffers)
        self._barriers = _barrier_handler(descriptor, len(self.gates.channels))
        self._decided: deque[CheckpointElement] = deque()
        self._recovered: deque[InputInFlight] = deque()
        self._in_flight: tuple[InputInFlight, ...] = ()
        self._alignment_start_ms = 0
        self._processed_bytes = 0

    @property
    def has_data(self) -> bool:
        """Something can be read now."""
        return bool(self._decided or self._recovered) or self.gates.has_data

    @property
    def has_priority(self) -> bool:
        """Something can be read that does not wait for room: a barrier that overtakes data, or what comes of one."""
        return bool(self._decided) or self.gates.has_priority

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

    def recover(self, recovered: Iterable[InputInFlight]) -> None:
        """These were in flight when the checkpoint was taken."""
        self._recovered.extend(recovered)

    def time_out(self, checkpoint_id: int, now: int) -> None:
        """The delay of a `StartAlignmentTimer` is over."""
        self._perform(self._barriers.time_out(checkpoint_id), now)

    def poll(
        self, now: int, *, only_priority: bool = False
    ) -> CheckpointElement | BatchArrived | tuple[int, InputEvent] | None:
        """The next element, an event with its channel; None while there is none, or none that overtakes data."""
        while not self._decided:
            if only_priority and not self.gates.has_priority:
                return None
            if self._recovered and not self.gates.has_priority:
                recovered = self._recovered.popleft()
                return BatchArrived(gate=recovered.gate, channel=None, batch=recovered.batch)
            polled = self.gates.poll()
            if polled is None:
                return None
            channel, buffer = polled
            if isinstance(buffer, BatchRef):
                self._processed_bytes += buffer.size_bytes
                return BatchArrived(gate=self.gates.gate_of(channel), channel=channel, batch=buffer)
            if not isinstance(buffer, BarrierEvent):
                return channel, buffer
            self._on_barrier_event(channel, buffer, now)
        return self._decided.popleft()

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self.gates.check()
        self._barriers.check()

    def _on_barrier_event(self, channel: int, event: BarrierEvent, now: int) -> None:
        if not self._barriers.pending_checkpoints:
            self._processed_bytes = 0
        self._perform(self._barriers.handle(channel, event, now), now)

    def _perform(self, actions: Iterable[BarrierAction], now: int) -> None:
        for action in actions:
            self._act(action, now)

    def _act(self, action: BarrierAction, now: int) -> None:
        match action:
            case TriggerCheckpointOnBarrier(barrier=barrier, alignment_start_ms=start_ms):
                self._alignment_start_ms = start_ms
                due = SnapshotDue(barrier=barrier, alignment=self._alignment(now), in_flight=self._in_flight)
                self._in_flight = ()
                self._decided.append(due)
            case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                self._decided.append(SnapshotGivenUp(checkpoint_id=checkpoint_id, reason=reason))
            case BlockChannel(channel=channel):
                self.gates.block(channel)
            case UnblockAllChannels():
                self.gates.unblock_all()
            case StartPersisting(checkpoint_id=checkpoint_id):
                in_channels = map(in_flight, self.gates.start_persisting(checkpoint_id))
                self._in_flight = (*self._recovered, *in_channels)
            case StopPersisting(checkpoint_id=checkpoint_id, is_complete=True):
                self.gates.stop_persisting()
                self._decided.append(InFlightComplete(checkpoint_id=checkpoint_id, alignment=self._alignment(now)))
            case StopPersisting(checkpoint_id=checkpoint_id):
                self.gates.stop_persisting()
                self._decided.append(InFlightGivenUp(checkpoint_id=checkpoint_id))
            case PrioritizeBarrier(channel=channel, checkpoint_id=checkpoint_id):
                self.gates.prioritize(channel, checkpoint_id)
            case StartAlignmentTimer():
                self._decided.append(action)
            case _:
                assert_never(action)

    def _alignment(self, now: int) -> Alignment:
        return Alignment(duration_ms=now - self._alignment_start_ms, processed_bytes=self._processed_bytes)


def in_flight(persisted: PersistInFlight) -> InputInFlight:
    """A batch that is part of a checkpoint, as the bridge is told of it."""
    return InputInFlight(gate=persisted.gate, batch=persisted.batch)


def _barrier_handler(descriptor: TaskDeploymentDescriptor, channels: int) -> CheckpointBarrierHandler:
    if descriptor.checkpointing_mode is CheckpointingMode.AT_LEAST_ONCE:
        return BarrierTracker(channels)
    return BarrierAligner(channels)
