"""Replies of an execution attempt's engine. Each names its stage or checkpoint, unless there is only one reply of its
class.

Also the messages inside a bridge: replies with the number of their work, and the progress of work.
"""

from __future__ import annotations

from flykka.messages.attempt.commands import Command, StagedOutput, StageOutput
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.operator_event import SentByFunction
from flykka.messages.tasks.source import PartitionTime
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@message("attempt.chain_opened")
class ChainOpened(Message):
    """bridge -> Task: the chain is ready for stages. `name` is the user's name for it, if it differs from the vertex's.

    If `is_ordered`, an operator has to process one batch after the other. If `has_state`, operators keep state between
    stages. If `has_sinks`, the attempt may have to commit. `recovered` has a batch for each `ChannelStateRead`, or None
    if the channel state has no row for this subtask.
    """

    is_ordered: bool = False
    has_state: bool = False
    has_sinks: bool = False
    recovered: tuple[BatchRef | None, ...] = ()
    name: str = ""


@message("attempt.stage_result")
class StageResult(Message):
    """bridge -> Task: the result of a stage: batches sent, output staged, and counts. Event times are in ms, if any.

    For a partitioned source, `partition_times` lists all of its partitions, read or not. `late_rows` were dropped
    because their windows were closed. `event_time_min` is computed only if the order of rows is watched. If
    `updates_state`, `UpdateState` has to follow. `accumulators` are the attempt's current ones, empty if no rows were
    processed. `next_timer_ms` is the time of the chain's first processing-time timer, which may have been deleted.
    `sent` contains the events and values that functions have sent to their coordinators.
    """

    stage: int
    outputs: tuple[StageOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()
    rows_in: int = 0
    rows_out: int = 0
    event_time_max: int | None = None
    event_time_min: int | None = None
    late_rows: int = 0
    updates_state: bool = False
    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    next_timer_ms: int | None = None
    partition_times: tuple[PartitionTime, ...] = ()
    sent: tuple[SentByFunction, ...] = ()


@message("attempt.commit_prepared")
class CommitPrepared(Message):
    """bridge -> Task: the sinks' part of a snapshot, and counts of rows that left the chain for this snapshot, staged
    or not.
    """

    checkpoint_id: int
    sinks: tuple[OperatorSubtaskState, ...] = ()
    rows_out: int = 0
    rows_staged: int = 0


@message("attempt.snapshot_written")
class SnapshotWritten(Message):
    """bridge -> Task: the durable state of the chain, and the number of its bytes that are new."""

    checkpoint_id: int
    operators: tuple[OperatorSubtaskState, ...] = ()
    incremental_bytes: int = 0


@message("attempt.channel_state_written")
class ChannelStateWritten(Message):
    """bridge -> Task: the folders of the written parts, in the order of the command."""

    checkpoint_id: int
    folders: tuple[ExclusiveStateHandle, ...]


@message("attempt.checkpoint_committed")
class CheckpointCommitted(Message):
    """bridge -> Task: the rows are published. `files` are the published files, empty for sinks without files."""

    checkpoint_id: int
    files: tuple[str, ...] = ()


@message("attempt.chain_closed")
class ChainClosed(Message):
    """bridge -> Task: no work of the attempt is running. `failure` is set if closing its functions failed."""

    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    failure: SerializedThrowable | None = None


@message("attempt.work_done")
class WorkDone(Message):
    """bridge -> Task: a command without a result was completed."""

    command: Command


@message("attempt.work_failed")
class WorkFailed(Message):
    """bridge -> Task: a command has failed. Only its checkpoint fails, unless the failure `ends_attempt`."""

    command: Command
    cause: SerializedThrowable
    ends_attempt: bool = True


Answer = (
    ChainOpened
    | StageResult
    | CommitPrepared
    | SnapshotWritten
    | ChannelStateWritten
    | CheckpointCommitted
    | ChainClosed
    | WorkDone
    | WorkFailed
)


@message("attempt.work_answered")
class WorkAnswered(Message):
    """engine -> bridge: the reply to a command, with the number of its work."""

    piece: int
    answer: Message


@message("attempt.engine_failed")
class EngineFailed(Message):
    """engine -> bridge -> Task: the attempt cannot continue, whatever work is running."""

    cause: SerializedThrowable


@message("attempt.progress_due")
class ProgressDue(Message):
    """timer -> bridge: check the progress of the work."""


@value("attempt.work_progress")
class WorkProgress(Value):
    """The progress of the work with the number `piece`, started `age_ms` ago: its Spark jobs, and their tasks."""

    piece: int
    what: str
    age_ms: int
    jobs: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_active: int = 0
    tasks_failed: int = 0


@message("attempt.progress_seen")
class ProgressSeen(Message):
    """engine -> bridge: the progress of the work. `reply_to` is set if it was requested."""

    works: tuple[WorkProgress, ...]
    reply_to: Ref | None = None
