"""Checks that the watermark of a task is the minimum over the channels of all its inputs.

A monitor does not see which of the arrived elements a task has read. So the watermark is checked against two bounds: it
is at most the last watermark that each channel has sent, and at least the watermark before the last batch read from the
channel. After a restore the watermark is at least the checkpoint's, so that late rows stay late. A source that is
aligned with others does not read beyond its limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.state.watermarks import restored_input_watermark_ms
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.attempt.commands import AdvanceWatermark, ProcessBatch, ReadSplits
from flykka.messages.tasks.exchange import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    BatchRef,
    BufferResponse,
    PartitionRequest,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.tasks.source import AlignWatermark
from flykka.messages.tasks.task import SubmitTask, UpdateTaskExecutionState
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.records import Turn

Channel = tuple[ResultPartitionId, int]


@dataclass(slots=True)
class _ChannelWatermarks:
    """The last watermark of a channel, and the watermark before the last batch that was read from it.

    An idle channel need not hold back the task. `unread` contains the batches not yet read, each with the watermark
    that preceded it.
    """

    last_ms: int = WATERMARK_MIN
    read_ms: int = WATERMARK_MIN
    is_idle: bool = False
    was_idle: bool = False
    unread: deque[tuple[BatchId, int]] = field(default_factory=deque)

    def read(self, batch_id: BatchId) -> None:
        while self.unread:
            first, self.read_ms = self.unread.popleft()
            if first == batch_id:
                return


@dataclass(slots=True)
class _WatermarkedTask:
    channels: dict[Channel, _ChannelWatermarks] = field(default_factory=dict)
    channel_of: dict[BatchId, Channel] = field(default_factory=dict)
    forwards_inputs: bool = False
    restored_ms: int = WATERMARK_MIN
    sent_ms: int = WATERMARK_MIN
    max_ms: int = WATERMARK_MAX
    """The watermark up to which an aligned source may read."""


class WatermarkMonitor(ConversationMonitor):
    name = "watermarks"

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[Ref, _WatermarkedTask] = {}
        # For each attempt: whether its watermarks are those of its inputs, and its initial watermark.
        self._submitted: dict[ExecutionAttemptId, tuple[bool, int]] = {}

    def received(self) -> Mapping[type, OnReceived]:
        return {
            ChainOpened: self._on_opened,
            BufferResponse: self._on_arrived,
            AlignWatermark: self._on_aligned,
            Undecoded: self._on_unreadable,
        }

    def sent(self) -> Mapping[type, OnSent]:
        return {
            SubmitTask: self._on_submitted,
            UpdateTaskExecutionState: self._on_state,
            PartitionRequest: self._on_asked,
            ProcessBatch: self._on_read,
            AdvanceWatermark: self._on_advanced,
            ReadSplits: self._on_read_splits,
            BufferResponse: self._on_sent,
        }

    def ended(self, ref: Ref) -> None:
        self._tasks.pop(ref, None)

    def _on_submitted(self, _turn: Turn, _to: Ref, message: SubmitTask) -> None:
        descriptor = message.descriptor
        forwards_inputs = not descriptor.vertex.operators[0].kind.makes_watermarks
        self._submitted[descriptor.attempt] = forwards_inputs, restored_input_watermark_ms(descriptor)

    def _on_opened(self, turn: Turn, _message: ChainOpened) -> None:
        self._tasks[turn.recipient] = _WatermarkedTask()

    def _on_state(self, turn: Turn, _to: Ref, message: UpdateTaskExecutionState) -> None:
        task = self._tasks.get(turn.recipient)
        if task is not None:
            expected = self._submitted.pop(message.state.attempt, (task.forwards_inputs, task.restored_ms))
            task.forwards_inputs, task.restored_ms = expected

    def _on_asked(self, turn: Turn, _to: Ref, message: PartitionRequest) -> None:
        task = self._tasks.get(turn.recipient)
        if task is not None and message.consumer == turn.recipient:
            watermarks = _ChannelWatermarks(last_ms=task.restored_ms, read_ms=task.restored_ms)
            task.channels.setdefault((message.partition_id, message.subpartition), watermarks)

    def _on_unreadable(self, turn: Turn, _message: Undecoded) -> None:
        """Stop checking the task, because the unreadable message may have been a watermark."""
        self._tasks.pop(turn.recipient, None)

    def _on_arrived(self, turn: Turn, message: BufferResponse) -> None:
        task, channel = self._tasks.get(turn.recipient), (message.partition_id, message.subpartition)
        watermarks = None if task is None else task.channels.get(channel)
        if task is not None and watermarks is not None:
            match message.buffer:
                case BatchRef(batch_id=batch_id):
                    task.channel_of[batch_id] = channel
                    watermarks.unread.append((batch_id, watermarks.last_ms))
                case Watermark(timestamp_ms=last_ms) if not watermarks.is_idle:
                    watermarks.last_ms = max(watermarks.last_ms, last_ms)
                case WatermarkStatus(idle=is_idle):
                    watermarks.is_idle, watermarks.was_idle = is_idle, watermarks.was_idle or is_idle

    def _on_read(self, turn: Turn, _to: Ref, message: ProcessBatch) -> Iterator[Violation]:
        task = self._tasks.get(turn.recipient)
        if task is None:
            return
        self._read(task, message.batch.batch_id)
        yield from self._check_upper_bound(turn, task, message.watermark_ms, f"{message.batch.batch_id} is read at")
        reached_ms = min((watermarks.read_ms for watermarks in task.channels.values()), default=WATERMARK_MIN)
        if message.watermark_ms < reached_ms:
            text = f"{message.batch.batch_id} is read at watermark {message.watermark_ms}"
            yield self.violation(
                turn, f"{text}, although all channels had reached {reached_ms} before their last batches"
            )
        for batch in message.coalesced:
            self._read(task, batch.batch_id)

    def _on_advanced(self, turn: Turn, _to: Ref, message: AdvanceWatermark) -> Iterator[Violation]:
        task = self._tasks.get(turn.recipient)
        if task is not None:
            yield from self._check_upper_bound(turn, task, message.watermark_ms, "the chain gets")

    def _on_sent(self, turn: Turn, _to: Ref, message: BufferResponse) -> Iterator[Violation]:
        task = self._tasks.get(turn.recipient)
        if task is None or not isinstance(message.buffer, Watermark):
            return
        task.sent_ms = max(task.sent_ms, message.buffer.timestamp_ms)
        if task.forwards_inputs:
            what = f"element {message.sequence_number} of {message.partition_id} is"
            yield from self._check_upper_bound(turn, task, message.buffer.timestamp_ms, what)

    def _on_aligned(self, turn: Turn, message: AlignWatermark) -> None:
        task = self._tasks.get(turn.recipient)
        if task is not None:
            task.max_ms = message.max_watermark_ms

    def _on_read_splits(self, turn: Turn, _to: Ref, _message: ReadSplits) -> Iterator[Violation]:
        task = self._tasks.get(turn.recipient)
        if task is not None and task.sent_ms > task.max_ms:
            text = f"the source reads at watermark {task.sent_ms}, beyond its limit {_watermark_text(task.max_ms)}"
            yield self.violation(turn, text)

    def _read(self, task: _WatermarkedTask, batch_id: BatchId) -> None:
        channel = task.channel_of.pop(batch_id, None)
        if channel is not None:
            task.channels[channel].read(batch_id)

    def _check_upper_bound(
        self, turn: Turn, task: _WatermarkedTask, watermark_ms: int, what: str
    ) -> Iterator[Violation]:
        for (partition_id, subpartition), watermarks in task.channels.items():
            if watermarks.last_ms < watermark_ms and not watermarks.was_idle:
                slowest = (
                    f"subpartition {subpartition} of {partition_id} has reached {_watermark_text(watermarks.last_ms)}"
                )
                yield self.violation(turn, f"{what} watermark {watermark_ms}, and {slowest}")
                return


def _watermark_text(watermark_ms: int) -> str:
    return "none" if watermark_ms == WATERMARK_MIN else str(watermark_ms)
