"""Commands of an execution attempt's machine to its engine; the bridge calls the engine's method of the same name.

A command has a lane: work of one lane is done in the order in which it was begun, and the lanes do not wait for each
other. If work that is `survivable` fails, only its checkpoint does. A command is identified by its class and its stage
or checkpoint, which its answer names.
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
    """A batch for output number `output` of the vertex; its subpartition is in the batch."""

    output: int
    batch: BatchRef


@value("attempt.input_in_flight")
class InputInFlight(Value):
    """A batch on its way into input gate number `gate` of the vertex."""

    gate: int
    batch: BatchRef


@value("attempt.staged_output")
class StagedOutput(Value):
    """Rows that one sink has written: staged under names that only the sink reads; without names, visible at once."""

    operator_id: OperatorId
    names: tuple[str, ...]
    rows: int


@value("attempt.channel_state_part")
class ChannelStatePart(Value):
    """Batches in flight to be written to the folder `path`: those of a gate, or of a subpartition of an output."""

    path: str
    batches: tuple[BatchRef, ...]
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0


@value("attempt.channel_state_read")
class ChannelStateRead(Value):
    """Channel state of a checkpoint, to be read as batch `batch_id` of a gate, or of a subpartition of an output.

    With `key_groups`, only the rows of these are read.
    """

    batch_id: BatchId
    in_flight: InFlightRows
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0
    key_groups: KeyGroupRange | None = None


class Lane(StrEnum):
    """Lanes of work: stages, snapshots and commits, work that must not wait, and the end."""

    STAGES = "stages"
    BACKGROUND = "background"
    AT_ONCE = "at once"
    END = "end"


class Command(Message):
    """Work of the engine, which is answered once."""

    __slots__ = ()
    lane: ClassVar[Lane]
    survivable: ClassVar[bool] = False
    method: ClassVar[str]
    """The engine's method that does the work."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.method = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    words: ClassVar[str]

    @property
    def description(self) -> str:
        """The work in words, for messages and for Spark's UI; the name of the chain follows."""
        return self.words


class StageCommand(Command):
    """Work of a stage. Stages are numbered from 0; what sees state is done in their order."""

    __slots__ = ()
    lane: ClassVar[Lane] = Lane.STAGES
    words: ClassVar[str] = "stage"
    stage: int

    @property
    def description(self) -> str:
        """The stage by its number."""
        return f"{self.words} {self.stage} of"


class CheckpointCommand(Command):
    """Work of a checkpoint."""

    __slots__ = ()
    lane: ClassVar[Lane] = Lane.BACKGROUND
    words: ClassVar[str] = "snapshot"
    checkpoint_id: int

    @property
    def description(self) -> str:
        """The work by its checkpoint."""
        return f"{self.words} {self.checkpoint_id} of"


@message("attempt.open_chain")
class OpenChain(Command):
    """Task -> bridge: restore the state of the chain (None: start empty), and read the channel state back."""

    lane: ClassVar[Lane] = Lane.STAGES
    words: ClassVar[str] = "opening"
    restore: TaskStateSnapshot | None
    recover: tuple[ChannelStateRead, ...] = ()
    restored_checkpoint_id: int | None = None


@message("attempt.read_splits")
class ReadSplits(StageCommand):
    """Task -> bridge: read splits as one batch, and process it."""

    stage: int
    splits: tuple[SourceSplit, ...]


@message("attempt.process_batch")
class ProcessBatch(StageCommand):
    """Task -> bridge: process a batch of input gate `gate`.

    `watermark_ms` is the event time of the attempt when the batch arrived: rows of windows that it has closed are late.
    `processing_time_ms` is the time at which the stage begins; 0 if no operator uses it. Batches that waited after the
    first are `coalesced` with it. `aggregates` are the results of global aggregates that have changed since the last
    stage.
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
        """All batches of the stage, in the order in which they were read."""
        return (self.batch, *self.coalesced)


@message("attempt.update_state")
class UpdateState(StageCommand):
    """Task -> bridge: add to the state what the stage has computed of its batch."""

    stage: int


@message("attempt.advance_watermark")
class AdvanceWatermark(StageCommand):
    """Task -> bridge: emit what is complete at this watermark. Not sent if windows fire with checkpoints."""

    stage: int
    watermark_ms: int
    processing_time_ms: int = 0


@message("attempt.advance_processing_time")
class AdvanceProcessingTime(StageCommand):
    """Task -> bridge: fire the timers that are due; `watermark_ms` is the event time of the attempt."""

    stage: int
    processing_time_ms: int
    watermark_ms: int


@message("attempt.handle_operator_events")
class HandleOperatorEvents(StageCommand):
    """Task -> bridge: give the function of this operator, the head of the chain, the events of its coordinator."""

    stage: int
    operator_id: OperatorId
    events: tuple[bytes, ...]
    watermark_ms: int
    processing_time_ms: int
    aggregates: tuple[AggregateResult, ...] = ()


@message("attempt.snapshot_state")
class SnapshotState(StageCommand):
    """Task -> bridge: note the state at a barrier. `watermark_ms` fires with it; None if nothing does.

    What it fires is emitted by this stage if other tasks read it, and else by `PrepareCommit`. What a savepoint holds
    is all of the state: it shares nothing.
    """

    stage: int
    checkpoint_id: int
    options: CheckpointOptions
    watermark_ms: int | None


@message("attempt.prepare_commit")
class PrepareCommit(CheckpointCommand):
    """Task -> bridge: emit what fires with the checkpoint, and prepare that and the output that was staged for it.

    From then on it is in all later snapshots, whatever becomes of this one.
    """

    checkpoint_id: int
    staged: tuple[StagedOutput, ...]


@message("attempt.write_snapshot")
class WriteSnapshot(CheckpointCommand):
    """Task -> bridge: make the noted state durable; for a savepoint in its folder, with all that belongs to it."""

    survivable: ClassVar[bool] = True
    checkpoint_id: int
    savepoint: str | None
    sinks: tuple[OperatorSubtaskState, ...]


@message("attempt.discard_snapshot")
class DiscardSnapshot(CheckpointCommand):
    """Task -> bridge: release the noted state of a checkpoint that was aborted."""

    checkpoint_id: int


@message("attempt.commit_checkpoint")
class CommitCheckpoint(CheckpointCommand):
    """Task -> bridge: the checkpoint is complete: publish what was prepared up to it."""

    words: ClassVar[str] = "committing checkpoint"
    checkpoint_id: int


@message("attempt.hold_batches")
class HoldBatches(CheckpointCommand):
    """Task -> bridge: add a holder to batches in flight, which are channel state of the checkpoint."""

    lane: ClassVar[Lane] = Lane.AT_ONCE
    words: ClassVar[str] = "channel state"
    survivable: ClassVar[bool] = True
    checkpoint_id: int
    batch_ids: tuple[BatchId, ...]
    holder: str


@message("attempt.write_channel_state")
class WriteChannelState(CheckpointCommand):
    """Task -> bridge: make durable what the barriers of the checkpoint have overtaken: all parts or none."""

    words: ClassVar[str] = "channel state"
    survivable: ClassVar[bool] = True
    checkpoint_id: int
    parts: tuple[ChannelStatePart, ...]


@message("attempt.close_chain")
class CloseChain(Command):
    """Task -> bridge: wait until nothing of the attempt runs any more, and release the batches that it holds."""

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
"""Every command that is answered."""


class Control(Message):
    """A call of the engine that does not block and is not answered."""

    __slots__ = ()


@message("attempt.release_batches")
class ReleaseBatches(Control):
    """Task -> bridge: release batches that `holder` holds; None: all that it holds."""

    holder: str
    batch_ids: tuple[BatchId, ...] | None = None


@message("attempt.cancel_work")
class CancelWork(Control):
    """Task -> bridge: begin nothing new, and end what runs."""


@message("attempt.interrupt_work")
class InterruptWork(Control):
    """Task -> bridge: interrupt what was cancelled and does not end."""
