"""Checks that a task's snapshot is a cut through all its channels: at their barriers, with the batches in flight.

A batch before a channel's barrier is part of the state if it was read before the snapshot. Otherwise it is in flight,
and belongs to the channel state of the checkpoint. A batch after the barrier belongs to neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from flykka.actors.machines.attempt.channel_state import recovered_inputs
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.attempt.commands import ChannelStateRead, OpenChain, ProcessBatch, SnapshotState, WriteChannelState
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    AlignmentType,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
)
from flykka.messages.tasks.exchange import (
    BatchRef,
    BufferResponse,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    PartitionRequest,
)
from flykka.messages.tasks.task import UpdateTaskExecutionState
from flykka.messages.wire.ids import BatchId, ResultPartitionId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.records import Turn

Channel = tuple[ResultPartitionId, int]


@dataclass(slots=True)
class _Channel:
    """The unread batches that have arrived in a channel, and the number of all batches before each barrier.

    After the end of data, barriers still arrive as long as the producer runs, because windows may fire then.
    """

    read: int = 0
    unread: deque[BatchId] = field(default_factory=deque)
    barriers: dict[int, int] = field(default_factory=dict)
    has_ended_data: bool = False
    has_ended: bool = False

    def before(self, checkpoint_id: int) -> Iterable[BatchId]:
        """Return the unread batches before a barrier, or all unread batches if the barrier has not arrived."""
        count = self.barriers.get(checkpoint_id)
        return self.unread if count is None else islice(self.unread, max(0, count - self.read))


@dataclass(slots=True)
class _Snapshot:
    """The batches in flight that belong to a snapshot, the written batches, and the channels without a barrier yet."""

    in_flight: set[BatchId]
    awaited: set[Channel]
    written: frozenset[BatchId] = frozenset()


@dataclass(slots=True)
class _AligningTask:
    recovered: dict[BatchId, None]
    channels: dict[Channel, _Channel] = field(default_factory=dict)
    channel_of: dict[BatchId, Channel] = field(default_factory=dict)
    snapshots: dict[int, _Snapshot] = field(default_factory=dict)


class BarrierMonitor(ConversationMonitor):
    name = "barriers"

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[Ref, _AligningTask] = {}
        self._recovering: dict[Ref, tuple[ChannelStateRead, ...]] = {}

    def received(self) -> Mapping[type, OnReceived]:
        return {
            ChainOpened: self._on_opened,
            BufferResponse: self._on_arrived,
            NotifyCheckpointAborted: self._on_aborted,
            Undecoded: self._on_unreadable,
        }

    def sent(self) -> Mapping[type, OnSent]:
        return {
            OpenChain: self._on_opening,
            PartitionRequest: self._on_asked,
            ProcessBatch: self._on_read,
            SnapshotState: self._on_snapshot,
            WriteChannelState: self._on_written,
            AcknowledgeCheckpoint: self._on_acknowledged,
            DeclineCheckpoint: self._on_given_up,
            UpdateTaskExecutionState: self._on_state,
        }

    def ended(self, ref: Ref) -> None:
        self._tasks.pop(ref, None)
        self._recovering.pop(ref, None)

    def _on_opening(self, turn: Turn, _to: Ref, message: OpenChain) -> None:
        self._recovering[turn.recipient] = message.recover

    def _on_opened(self, turn: Turn, message: ChainOpened) -> None:
        inputs = recovered_inputs(self._recovering.pop(turn.recipient, ()), message.recovered)
        self._tasks[turn.recipient] = _AligningTask({each.batch.batch_id: None for each in inputs})

    def _on_aborted(self, turn: Turn, message: NotifyCheckpointAborted) -> None:
        self._give_up(turn, message.checkpoint_id)

    def _on_asked(self, turn: Turn, _to: Ref, message: PartitionRequest) -> None:
        task = self._tasks.get(turn.recipient)
        if task is not None and message.consumer == turn.recipient:
            task.channels.setdefault((message.partition_id, message.subpartition), _Channel())

    def _on_unreadable(self, turn: Turn, _message: Undecoded) -> None:
        self._tasks.pop(turn.recipient, None)

    def _on_arrived(self, turn: Turn, message: BufferResponse) -> None:
        task, name = self._tasks.get(turn.recipient), (message.partition_id, message.subpartition)
        channel = None if task is None else task.channels.get(name)
        if task is None or channel is None:
            return
        match message.buffer:
            case BatchRef(batch_id=batch_id):
                channel.unread.append(batch_id)
                task.channel_of[batch_id] = name
                for snapshot in task.snapshots.values():
                    if name in snapshot.awaited:
                        snapshot.in_flight.add(batch_id)
            case CheckpointBarrier(checkpoint_id=checkpoint_id):
                channel.barriers[checkpoint_id] = channel.read + len(channel.unread)
                if checkpoint_id in task.snapshots:
                    task.snapshots[checkpoint_id].awaited.discard(name)
            case EndOfData():
                channel.has_ended_data = True
            case EndOfPartition():
                channel.has_ended = True
                for snapshot in task.snapshots.values():
                    snapshot.awaited.discard(name)

    def _on_read(self, turn: Turn, _to: Ref, message: ProcessBatch) -> Iterator[Violation]:
        task = self._tasks.get(turn.recipient)
        if task is None:
            return
        for batch in message.batches:
            task.recovered.pop(batch.batch_id, None)
            name = task.channel_of.pop(batch.batch_id, None)
            channel = None if name is None else task.channels[name]
            if channel is not None:
                if channel.unread[0] != batch.batch_id:
                    yield self.violation(turn, f"{batch.batch_id} is read before the earlier batch {channel.unread[0]}")
                    channel.unread.remove(batch.batch_id)
                else:
                    channel.unread.popleft()
                channel.read += 1

    def _on_snapshot(self, turn: Turn, _to: Ref, message: SnapshotState) -> Iterator[Violation]:
        task = self._tasks.get(turn.recipient)
        if task is None:
            return
        checkpoint_id, alignment = message.checkpoint_id, message.options.alignment
        awaited = {
            name
            for name, channel in task.channels.items()
            if checkpoint_id not in channel.barriers and not channel.has_ended
        }
        if alignment is not AlignmentType.UNALIGNED:
            yield from self._awaited(turn, task, checkpoint_id, awaited, "the snapshot is taken")
            awaited = set()
        in_flight = set(task.recovered)
        for name, channel in task.channels.items():
            is_beyond = channel.read > channel.barriers.get(checkpoint_id, channel.read)
            if is_beyond and alignment is not AlignmentType.AT_LEAST_ONCE:
                text = f"a batch after the barrier in {_channel_name(name)} was read before the snapshot"
                yield self.violation(turn, f"checkpoint {checkpoint_id}: {text}")
            in_flight.update(channel.before(checkpoint_id))
            for old_id in [each for each in channel.barriers if each <= checkpoint_id]:
                del channel.barriers[old_id]
        task.snapshots[checkpoint_id] = _Snapshot(in_flight, awaited)

    def _on_written(self, turn: Turn, _to: Ref, message: WriteChannelState) -> None:
        snapshot = self._snapshot(turn, message.checkpoint_id)
        if snapshot is not None:
            snapshot.written = frozenset(
                batch.batch_id for part in message.parts if part.gate is not None for batch in part.batches
            )

    def _on_acknowledged(self, turn: Turn, _to: Ref, message: AcknowledgeCheckpoint) -> Iterator[Violation]:
        task, checkpoint_id = self._tasks.get(turn.recipient), message.checkpoint_id
        snapshot = None if task is None else task.snapshots.pop(checkpoint_id, None)
        if task is None or snapshot is None:
            return
        yield from self._awaited(turn, task, checkpoint_id, snapshot.awaited, "it is acknowledged")
        if missing := sorted(snapshot.in_flight - snapshot.written):
            text = f"{missing[0]} was in flight, but is neither in the state nor in the channel state"
            yield self.violation(turn, f"checkpoint {checkpoint_id}: {text}")
        if doubled := sorted(snapshot.written - snapshot.in_flight):
            text = (
                f"{doubled[0]} is in the channel state, but was read before the snapshot or arrived after the barrier"
            )
            yield self.violation(turn, f"checkpoint {checkpoint_id}: {text}")

    def _on_given_up(self, turn: Turn, _to: Ref, message: DeclineCheckpoint) -> None:
        self._give_up(turn, message.checkpoint_id)

    def _give_up(self, turn: Turn, checkpoint_id: int) -> None:
        """Forget an aborted snapshot. Parts of it may still be acknowledged, but only to be deleted."""
        task = self._tasks.get(turn.recipient)
        if task is not None:
            task.snapshots.pop(checkpoint_id, None)

    def _on_state(self, turn: Turn, _to: Ref, message: UpdateTaskExecutionState) -> None:
        task = self._tasks.get(turn.recipient)
        if task is not None and message.state.state in EXECUTION_TERMINAL:
            task.snapshots.clear()

    def _awaited(
        self, turn: Turn, task: _AligningTask, checkpoint_id: int, awaited: Iterable[Channel], what: str
    ) -> Iterator[Violation]:
        for name in sorted(awaited):
            if not task.channels[name].has_ended_data:
                text = f"{what} before its barrier has arrived in {_channel_name(name)}"
                yield self.violation(turn, f"checkpoint {checkpoint_id}: {text}")
                return

    def _snapshot(self, turn: Turn, checkpoint_id: int) -> _Snapshot | None:
        task = self._tasks.get(turn.recipient)
        return None if task is None else task.snapshots.get(checkpoint_id)


def _channel_name(channel: Channel) -> str:
    partition_id, subpartition = channel
    return f"subpartition {subpartition} of {partition_id}"
