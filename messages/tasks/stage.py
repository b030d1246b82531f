"""Between a Task and its bridge: what the data plane is told and what it answers.

Stages are numbered by the Task from 0 and answered in that order, also when several are in flight. A stage that fails
answers `StageFailed`, and no later stage of that attempt is answered.
"""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointOptions
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.operator_event import AggregateResult, SentByFunction
from flykka.messages.tasks.source import PartitionTime, SourceSplit
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.messages.wire.message import Message, Value, message, value


@value("stage.output")
class StageOutput(Value):
    """A batch made for output number `output` of the vertex; its subpartition is in the batch."""

    output: int
    batch: BatchRef


@message("stage.open_bridge")
class OpenBridge(Message):
    """Task -> bridge: make the chain ready and restore its state (None: start empty)."""

    restore: TaskStateSnapshot | None
    restored_checkpoint_id: int | None


@value("stage.input_in_flight")
class InputInFlight(Value):
    """A batch on its way into input gate number `gate` of the vertex."""

    gate: int
    batch: BatchRef


@message("stage.bridge_opened")
class BridgeOpened(Message):
    """bridge -> Task: restored and ready for stages.

    Of an unaligned checkpoint, what was in flight is there again: `recovered_inputs` are read before anything else,
    `recovered_outputs` go down before anything else.
    """

    recovered_inputs: tuple[InputInFlight, ...] = ()
    recovered_outputs: tuple[StageOutput, ...] = ()


@message("stage.read_splits")
class ReadSplits(Message):
    """Task -> bridge of a source: read these splits as one batch, through the chain."""

    stage: int
    splits: tuple[SourceSplit, ...]


@message("stage.run")
class RunStage(Message):
    """Task -> bridge: take this batch of input gate `gate` through the chain.

    `watermark_ms` is the task's event time when the batch arrived: rows of windows it has closed are late.
    `processing_time_ms` is the time at which the stage is begun; 0 where no operator goes by it. The rows of
    `coalesced` go with it, batches that waited behind it, as if they were of one batch. `aggregates` are global ones
    whose results have changed since the stage before.
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


@message("stage.advance_watermark")
class AdvanceWatermark(Message):
    """Task -> bridge: fire what the watermark fires. Not sent where firing is deferred to the checkpoint.

    `processing_time_ms` as of `RunStage`.
    """

    stage: int
    watermark_ms: int
    processing_time_ms: int = 0


@message("stage.advance_processing_time")
class AdvanceProcessingTime(Message):
    """Task -> bridge: fire the timers that processing time has come to; `watermark_ms` is the task's event time."""

    stage: int
    processing_time_ms: int
    watermark_ms: int


@message("stage.handle_operator_events")
class HandleOperatorEvents(Message):
    """Task -> bridge: give the function of this operator, the head of the chain, the events of its coordinator.

    Times as of `AdvanceProcessingTime`, `aggregates` as of `RunStage`.
    """

    stage: int
    operator_id: OperatorId
    events: tuple[bytes, ...]
    watermark_ms: int
    processing_time_ms: int
    aggregates: tuple[AggregateResult, ...] = ()


@message("stage.snapshot_state")
class SnapshotState(Message):
    """Task -> bridge: snapshot the chain at this barrier.

    Answered twice: `StageFinished` when everything that goes before the barrier is there (deferred windows up to
    `watermark_ms` fired, sinks staged), then `StateSnapshotted` when the state is durable; further stages may run
    meanwhile. Where the state is durable at once the first answer holds the second.
    """

    stage: int
    checkpoint_id: int
    options: CheckpointOptions
    watermark_ms: int


@value("stage.sink_rows")
class SinkRows(Value):
    """Rows that the sinks of a chain have written, and those that they have published, since this was told last.

    What is written and not published waits, staged, for a checkpoint. What a sink shows at once is both. What an
    attempt publishes because it was restored from a checkpoint that holds it was written by another, and is neither.
    """

    written: int = 0
    published: int = 0


@message("stage.state_snapshotted")
class StateSnapshotted(Message):
    """bridge -> Task: the state of the checkpoint is durable; times in ms, newly written are `incremental_bytes`.

    `rows_out` left the chain while it was written: windows that fire with a checkpoint fire then. Where nothing
    `awaits_commit` the bridge need not be told when the checkpoint is complete.
    """

    checkpoint_id: int
    state: TaskStateSnapshot
    size_bytes: int
    incremental_bytes: int
    sync_ms: int
    async_ms: int
    rows_out: int = 0
    awaits_commit: bool = True
    sink_rows: SinkRows | None = None


@message("stage.finished")
class StageFinished(Message):
    """bridge -> Task: what the stage made. Event time in ms, None where there is none; it concerns the rows read.

    Where the source is partitioned, `partition_times` are those of its partitions, with all that it has, read or not.
    `late_rows` were dropped because their windows were closed. `event_time_min` is looked for only where the order of
    rows is watched. Where rows mark watermarks, event time is that of the rows that do. `accumulators` are those of the
    attempt so far; none where no rows were moved. The `snapshot` that the stage was to take comes with it where
    nothing has to be written for it. `next_timer_ms` is the first processing-time timer of the chain, or one that was
    deleted; None where it has none. `sent` is what functions have sent.
    """

    stage: int
    outputs: tuple[StageOutput, ...] = ()
    rows_in: int = 0
    rows_out: int = 0
    event_time_max: int | None = None
    late_rows: int = 0
    duration_ms: int = 0
    event_time_min: int | None = None
    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    snapshot: StateSnapshotted | None = None
    sink_rows: SinkRows | None = None
    next_timer_ms: int | None = None
    partition_times: tuple[PartitionTime, ...] = ()
    sent: tuple[SentByFunction, ...] = ()


@message("stage.failed")
class StageFailed(Message):
    """bridge -> Task: a stage, or the opening, a snapshot or a commit, failed; the message of the cause says which."""

    cause: SerializedThrowable


@message("stage.snapshot_failed")
class SnapshotFailed(Message):
    """bridge -> Task: the state could not be made durable; the checkpoint is declined and the attempt goes on."""

    checkpoint_id: int
    cause: SerializedThrowable
    reason: CheckpointDeclineReason = CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION


@message("stage.hold_in_flight")
class HoldInFlight(Message):
    """Task -> bridge: these batches are channel state of the checkpoint; keep them until it is written or aborted."""

    checkpoint_id: int
    batch_ids: tuple[BatchId, ...]


@message("stage.write_channel_state")
class WriteChannelState(Message):
    """Task -> bridge: this is all that the barriers of the checkpoint overtook, and it is held; make it durable."""

    checkpoint_id: int
    inputs: tuple[InputInFlight, ...]
    outputs: tuple[StageOutput, ...]


@message("stage.channel_state_written")
class ChannelStateWritten(Message):
    """bridge -> Task: the channel state of the checkpoint is durable, as state of the chain's head."""

    checkpoint_id: int
    state: OperatorSubtaskState
    size_bytes: int


@message("stage.commit_checkpoint")
class CommitCheckpoint(Message):
    """Task -> bridge: the checkpoint is complete; publish what was staged up to it."""

    checkpoint_id: int


@message("stage.checkpoint_committed")
class CheckpointCommitted(Message):
    """bridge -> Task: published; `files` names what readers can see now, as far as the sinks have names."""

    checkpoint_id: int
    files: tuple[str, ...] = ()
    sink_rows: SinkRows | None = None


@message("stage.abort_checkpoint")
class AbortCheckpoint(Message):
    """Task -> bridge: the checkpoint will not complete; its staged output goes into the next one."""

    checkpoint_id: int


@message("stage.release_batches")
class ReleaseBatches(Message):
    """Task -> bridge: nobody will read these."""

    batch_ids: tuple[BatchId, ...]


@message("stage.close_bridge")
class CloseBridge(Message):
    """Task -> bridge: the attempt is over. `cancel` cancels what runs and releases what is not yet read.

    `interrupt` comes when that did not lead to an end: threads that do not return are to be interrupted.
    """

    cancel: bool
    interrupt: bool = False


@message("stage.bridge_closed")
class BridgeClosed(Message):
    """bridge -> Task: nothing of the attempt runs any more. `accumulators` are what it has counted in the end."""

    accumulators: tuple[AccumulatorSnapshot, ...] = ()


BridgeCommand = (
    OpenBridge
    | ReadSplits
    | RunStage
    | AdvanceWatermark
    | AdvanceProcessingTime
    | HandleOperatorEvents
    | SnapshotState
    | HoldInFlight
    | WriteChannelState
    | CommitCheckpoint
    | AbortCheckpoint
    | ReleaseBatches
    | CloseBridge
)
"""Everything a Task tells its bridge."""
