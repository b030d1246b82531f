"""Inside a bridge: what the engine of an attempt is asked for and answers, and how far it is."""

from __future__ import annotations

from flykka.messages.state.handles import ExclusiveStateHandle, InFlightRows, KeyGroupRange, OperatorSubtaskState
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.operator_event import SentByFunction
from flykka.messages.tasks.source import PartitionTime
from flykka.messages.tasks.stage import StageOutput
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("bridge.in_flight_read")
class InFlightRead(Value):
    """Rows of a checkpoint that are to be batch `batch_id` again, on its way into a gate or in a subpartition.

    Of `key_groups` alone, where the rows of others lie among them. `gate` is None for a batch of output `output`.
    """

    batch_id: BatchId
    in_flight: InFlightRows
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0
    key_groups: KeyGroupRange | None = None


@value("bridge.in_flight_part")
class InFlightPart(Value):
    """The rows of these batches are to be written to the folder `path`."""

    path: str
    batches: tuple[BatchRef, ...]


@value("bridge.staged")
class StagedOutput(Value):
    """Rows that one sink has written: staged, by names that the sink alone knows; without names, shown at once."""

    operator_id: OperatorId
    names: tuple[str, ...]
    rows: int


@value("bridge.chain_opened")
class ChainOpened(Value):
    """The answer to `Engine.open`: how the user calls the chain, how many of its stages may be at work at once.

    `has_state`: operators keep state between stages; `has_sinks`: something may have to be committed. `recovered` has a
    batch for each `InFlightRead`, None where no row was left of it.
    """

    name: str
    stages_in_flight: int = 1
    has_state: bool = False
    has_sinks: bool = False
    recovered: tuple[BatchRef | None, ...] = ()


@value("bridge.rows_moved")
class RowsMoved(Value):
    """The answer to whatever moves rows: what was sent, staged and counted. Event times in ms, of the rows read.

    Where the source is partitioned, the event times of the partitions are `partition_times`. `updates_state`: the rows
    change state, which is to be done in the order of the stages. `accumulators` are those of the attempt so far.
    `next_timer_ms` and `sent` as of `StageFinished`.
    """

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


@value("bridge.commit_prepared")
class CommitPrepared(Value):
    """The answer to `Engine.prepare_commit`: the sinks' part of a snapshot, and the rows that left the chain for it.

    Of these sinks have staged `rows_staged`, behind the barrier.
    """

    sinks: tuple[OperatorSubtaskState, ...] = ()
    rows_out: int = 0
    rows_staged: int = 0


@value("bridge.snapshot_written")
class SnapshotWritten(Value):
    """The answer to `Engine.write_snapshot`: the durable state of the chain, and how many bytes of it are new."""

    operators: tuple[OperatorSubtaskState, ...] = ()
    incremental_bytes: int = 0


@value("bridge.in_flight_written")
class InFlightWritten(Value):
    """The answer to `Engine.write_in_flight`: where each part lies."""

    folders: tuple[ExclusiveStateHandle, ...]


@value("bridge.output_committed")
class OutputCommitted(Value):
    """The answer to `Engine.commit`: the files that readers can see now, as far as the sinks have names."""

    files: tuple[str, ...] = ()


@value("bridge.chain_closed")
class ChainClosed(Value):
    """The answer to `Engine.close_chain`: what the attempt has counted, and what its functions failed of at the end."""

    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    failure: SerializedThrowable | None = None


@message("bridge.work_done")
class WorkDone(Message):
    """engine -> bridge: the piece of work of this key is done; the answer is of the class that it asks for."""

    work: str
    answer: Value | None = None


@message("bridge.work_failed")
class WorkFailed(Message):
    """engine -> bridge: the piece of work of this key has failed; `ends_attempt`: the attempt cannot go on."""

    work: str
    cause: SerializedThrowable
    ends_attempt: bool = True


@message("bridge.engine_failed")
class EngineFailed(Message):
    """engine -> bridge: the attempt cannot go on, whatever is at work."""

    cause: SerializedThrowable


@message("bridge.progress_due")
class ProgressDue(Message):
    """timer -> bridge: look how far the stages at work are."""


@value("bridge.work_progress")
class WorkProgress(Value):
    """Piece of work number `piece` of an attempt, begun `age_ms` ago: its Spark jobs, and the tasks of these."""

    piece: int
    what: str
    age_ms: int
    jobs: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_active: int = 0
    tasks_failed: int = 0


@message("bridge.progress_seen")
class ProgressSeen(Message):
    """look at Spark -> bridge: so far is what is at work; `reply_to` has asked for it, or nobody has."""

    works: tuple[WorkProgress, ...]
    reply_to: Ref | None = None
