"""Commands of an execution attempt's state machine to its engine. The bridge calls the engine's method of the same
name.

A command has a lane: work of one lane runs in start order, and lanes do not wait for each other. If `survivable` work
fails, only its checkpoint fails. A command is identified by its class and its stage or checkpoint, which its reply
names.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import ClassVar

from flykka.messages.checkpointing.checkpoint import CheckpointOptions
from flykka.messages.state.handles import InFlightRows, KeyGroupRange, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.operator_event import AggregateResult
from flykka.messages.tasks.source import SourceSplit
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.messages.wire.message import Message, Value, message, value


@value("attempt.stage_output")
class StageOutput(Value):
    """A batch for output number `output` of the vertex. The batch names its subpartition."""

    output: int
    batch: BatchRef


@value("attempt.input_in_flight")
class InputInFlight(Value):
    """An in-flight batch for input gate number `gate` of the vertex."""

    gate: int
    batch: BatchRef


@value("attempt.staged_output")
class StagedOutput(Value):
    """Rows that a sink has written: staged under names that only the sink reads or, without names, already visible."""

    operator_id: OperatorId
    names: tuple[str, ...]
    rows: int


@value("attempt.channel_state_part")
class ChannelStatePart(Value):
    """In-flight batches of a gate, or of a subpartition of an output, to write to the folder `path`."""

    path: str
    batches: tuple[BatchRef, ...]
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0


@value("attempt.channel_state_read")
class ChannelStateRead(Value):
    """Channel state of a checkpoint, to read as batch `batch_id` of a gate, or of a subpartition of an output.

    With `key_groups`, only the rows of these key groups are read.
    """

    batch_id: BatchId
    in_flight: InFlightRows
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0
    key_groups: KeyGroupRange | None = None


class Lane(StrEnum):
    """Lanes of work: stages, snapshots and commits, work that must start at once, and closing."""

    STAGES = "stages"
    BACKGROUND = "background"
    AT_ONCE = "at once"
    END = "end"


class Command(Message):
    """Work of the engine, which gets one reply."""

    __slots__ = ()
    lane: ClassVar[Lane]
    survivable: ClassVar[bool] = False
    method: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.method = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    words: ClassVar[str]

    @property
    def description(self) -> str:
        """A description of the work for messages and Spark's UI. The name of the chain follows it."""
        return self.words


class StageCommand(Command):
    """Work of a stage. Stages are numbered from 0, and work that uses state runs in this order."""

    __slots__ = ()
    lane: ClassVar[Lane] = Lane.STAGES
    words: ClassVar[str] = "stage"
    stage: int

    @property
    def description(self) -> str:
        return f"{self.words} {self.stage} of"


class CheckpointCommand(Command):
    __slots__ = ()
    lane: ClassVar[Lane] = Lane.BACKGROUND
    words: ClassVar[str] = "snapshot"
    checkpoint_id: int

    @property
    def description(self) -> str:
        return f"{self.words} {self.checkpoint_id} of"


@message("attempt.open_chain")
class OpenChain(Command):
    """Task -> bridge: restore the state of the chain (None: start empty), and read back the channel state."""

    lane: ClassVar[Lane] = Lane.STAGES
    words: ClassVar[str] = "opening"
    restore: TaskStateSnapshot | None
    recover: tuple[ChannelStateRead, ...] = ()
    restored_checkpoint_id: int | None = None


@message("attempt.read_splits")
class ReadSplits(StageCommand):
    """Task -> bridge: read splits as one batch, and process the batch."""

    stage: int
    splits: tuple[SourceSplit, ...]


@message("attempt.process_batch")
class ProcessBatch(StageCommand):
    """Task -> bridge: process a batch of input gate `gate`.

    `watermark_ms` is the event time of the attempt when the batch arrived: rows of windows that this watermark has
    closed are late. `processing_time_ms` is the time at which the stage starts, or 0 if no operator uses it.
    `coalesced` are queued batches that are processed together with the first batch. `aggregates` are the results of
    global aggregates that have changed since the last stage.
    """

    stage: int
    gate: int
    batch: BatchRef
    watermark_ms: int
    processing_time_ms: int = 0
    coalesced: tuple[BatchRef, ...] = ()
    aggregates: tuple[AggregateResult, ...] = ()

    @property
    def batches(self) -> tuple[BatchRef, ...]:
        return (self.batch, *self.coalesced)


@message("attempt.update_state")
class UpdateState(StageCommand):
    """Task -> bridge: update the state with the results of the stage."""

    stage: int


@message("attempt.advance_watermark")
class AdvanceWatermark(StageCommand):
    """Task -> bridge: emit the results that are complete at this watermark. Not sent if windows fire at checkpoints."""

    stage: int
    watermark_ms: int
    processing_time_ms: int = 0


@message("attempt.advance_processing_time")
class AdvanceProcessingTime(StageCommand):
    """Task -> bridge: fire the timers that are due. `watermark_ms` is the event time of the attempt."""

    stage: int
    processing_time_ms: int
    watermark_ms: int


@message("attempt.handle_operator_events")
class HandleOperatorEvents(StageCommand):
    """Task -> bridge: pass coordinator events to the function of this operator, the head of the chain."""

    stage: int
    operator_id: OperatorId
    events: tuple[bytes, ...]
    watermark_ms: int
    processing_time_ms: int
    aggregates: tuple[AggregateResult, ...] = ()


@message("attempt.snapshot_state")
class SnapshotState(StageCommand):
    """Task -> bridge: take a snapshot of the state at a barrier. Results up to `watermark_ms` fire with it (None:
    nothing fires).

    If other tasks read the fired rows, this stage emits them, otherwise `PrepareCommit` does. A savepoint contains all
    of the state and shares none.
    """

    stage: int
    checkpoint_id: int
    options: CheckpointOptions
    watermark_ms: int | None


@message("attempt.prepare_commit")
class PrepareCommit(CheckpointCommand):
    """Task -> bridge: emit the rows that fire with the checkpoint, and prepare them and the staged output for commit.

    All later snapshots contain the prepared output, even if this checkpoint fails.
    """

    checkpoint_id: int
    staged: tuple[StagedOutput, ...]


@message("attempt.write_snapshot")
class WriteSnapshot(CheckpointCommand):
    """Task -> bridge: make the snapshot durable. A savepoint is written to its own folder, with all its files."""

    survivable: ClassVar[bool] = True
    checkpoint_id: int
    savepoint: str | None
    sinks: tuple[OperatorSubtaskState, ...]


@message("attempt.discard_snapshot")
class DiscardSnapshot(CheckpointCommand):
    """Task -> bridge: release the snapshot of an aborted checkpoint."""

    checkpoint_id: int


@message("attempt.commit_checkpoint")
class CommitCheckpoint(CheckpointCommand):
    """Task -> bridge: the checkpoint is complete, so publish the output prepared up to it."""

    words: ClassVar[str] = "committing checkpoint"
    checkpoint_id: int


@message("attempt.hold_batches")
class HoldBatches(CheckpointCommand):
    """Task -> bridge: add a holder to in-flight batches, which are channel state of the checkpoint."""

    lane: ClassVar[Lane] = Lane.AT_ONCE
    words: ClassVar[str] = "channel state"
    survivable: ClassVar[bool] = True
    checkpoint_id: int
    batch_ids: tuple[BatchId, ...]
    holder: str


@message("attempt.write_channel_state")
class WriteChannelState(CheckpointCommand):
    """Task -> bridge: make the batches overtaken by the barriers of the checkpoint durable: all parts or none."""

    words: ClassVar[str] = "channel state"
    survivable: ClassVar[bool] = True
    checkpoint_id: int
    parts: tuple[ChannelStatePart, ...]


@message("attempt.close_chain")
class CloseChain(Command):
    """Task -> bridge: wait until all work of the attempt has ended, and release its batches."""

    lane: ClassVar[Lane] = Lane.END
    words: ClassVar[str] = "closing"
    cancel: bool


Work = (
    OpenChain
    | ReadSplits
    | ProcessBatch
    | UpdateState
    | AdvanceWatermark
    | AdvanceProcessingTime
    | HandleOperatorEvents
    | SnapshotState
    | PrepareCommit
    | WriteSnapshot
    | DiscardSnapshot
    | CommitCheckpoint
    | HoldBatches
    | WriteChannelState
    | CloseChain
)


class Control(Message):
    """A call of the engine that does not block and has no reply."""

    __slots__ = ()


@message("attempt.release_batches")
class ReleaseBatches(Control):
    """Task -> bridge: release batches that `holder` holds (None: all batches that it holds)."""

    holder: str
    batch_ids: tuple[BatchId, ...] | None = None


@message("attempt.cancel_work")
class CancelWork(Control):
    """Task -> bridge: start no new work, and cancel running work."""


@message("attempt.interrupt_work")
class InterruptWork(Control):
    """Task -> bridge: interrupt cancelled work that has not ended."""
