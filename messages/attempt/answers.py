"""Answers of an execution attempt's engine. Each names its stage or its checkpoint, or is the only one of its class.

Beside them the messages inside a bridge: an answer with its piece of work, and the progress of work.
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
    """bridge -> Task: the chain is ready for stages. `name` is the user's name of it, if it is not the vertex's.

    If `is_ordered`, an operator has to process one batch after the other. `has_state`: operators keep state between
    stages; `has_sinks`: something may have to be committed. `recovered` has a batch for each `ChannelStateRead`, None
    if no row of it is for this subtask.
    """

    is_ordered: bool = False
    has_state: bool = False
    has_sinks: bool = False
    recovered: tuple[BatchRef | None, ...] = ()
    name: str = ""


@message("attempt.stage_result")
class StageResult(Message):
    """bridge -> Task: the result of a stage: batches sent, output staged, and counts; event times in ms, if any.

    If the source is partitioned, `partition_times` are those of its partitions, with all that it has, read or not.
    `late_rows` were dropped because their windows were closed. `event_time_min` is computed only if the order of rows
    is watched. `updates_state`: `UpdateState` has to follow. `accumulators` are those of the attempt so far; none if no
    rows were moved. `next_timer_ms` is the first processing-time timer of the chain, or one that was deleted. `sent` is
    what functions have sent to their coordinators.
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
    """bridge -> Task: the sinks' part of a snapshot, and the rows that left the chain for it, some of them staged."""

    checkpoint_id: int
    sinks: tuple[OperatorSubtaskState, ...] = ()
    rows_out: int = 0
    rows_staged: int = 0


@message("attempt.snapshot_written")
class SnapshotWritten(Message):
    """bridge -> Task: the durable state of the chain, and how many bytes of it are new."""

    checkpoint_id: int
    operators: tuple[OperatorSubtaskState, ...] = ()
    incremental_bytes: int = 0


@message("attempt.channel_state_written")
class ChannelStateWritten(Message):
    """bridge -> Task: the folders of the parts, in their order."""

    checkpoint_id: int
    folders: tuple[ExclusiveStateHandle, ...]


@message("attempt.checkpoint_committed")
class CheckpointCommitted(Message):
    """bridge -> Task: published; `files` names what readers can see now, as far as the sinks have names."""

    checkpoint_id: int
    files: tuple[str, ...] = ()


@message("attempt.chain_closed")
class ChainClosed(Message):
    """bridge -> Task: nothing of the attempt runs any more. `failure`: its functions have failed at the end."""

    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    failure: SerializedThrowable | None = None


@message("attempt.work_done")
class WorkDone(Message):
    """bridge -> Task: the answer to a command that has no result."""

    command: Command


@message("attempt.work_failed")
class WorkFailed(Message):
    """bridge -> Task: a command has failed; unless that `ends_attempt`, only its checkpoint has failed."""

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
    """engine -> bridge: the answer to a piece of work, by its number."""

    piece: int
    answer: Message


@message("attempt.engine_failed")
class EngineFailed(Message):
    """engine -> bridge -> Task: the attempt cannot continue, whatever is at work."""

    cause: SerializedThrowable


@message("attempt.progress_due")
class ProgressDue(Message):
    """timer -> bridge: look at the progress of the work."""


@value("attempt.work_progress")
class WorkProgress(Value):
    """Piece of work number `piece` of an attempt, begun `age_ms` ago: its Spark jobs, and their tasks."""

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
    """look at Spark -> bridge: the progress of the work; `reply_to` has asked for it, if anything has."""

    works: tuple[WorkProgress, ...]
    reply_to: Ref | None = None
