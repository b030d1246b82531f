"""Events of a Task's machine: messages to the Task, and three that its actor makes."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore, LogWarning, Role, StartTimer, Tell
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    EngineFailed,
    SnapshotWritten,
    StageResult,
    WorkDone,
    WorkFailed,
)
from flykka.messages.checkpointing.checkpoint import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.tasks.exchange import (
    AddCredit,
    AlignmentTimeoutDue,
    BacklogAnnouncement,
    BufferResponse,
    BuffersResized,
    CancelPartitionRequest,
    ErrorResponse,
    PartitionRequest,
    PartitionRequestDue,
)
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents
from flykka.messages.tasks.source import AddSplits, AlignWatermark, NoMoreSplits
from flykka.messages.tasks.task import (
    CancellationDue,
    CancelTask,
    FailTask,
    IdleDue,
    LatencyMarkerDue,
    MetricsDue,
    PartitionProducerState,
    ProcessingTimeDue,
    ReadDue,
    WatermarkReportDue,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask:
    """The Task has started, with its bridge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeLost:
    """The bridge has died."""

    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """A TaskManager that was asked for a partition has ended."""

    task_manager: Ref


TaskEvent = (
    StartTask
    | BridgeLost
    | ConnectionLost
    | PartitionRequestDue
    | AlignmentTimeoutDue
    | MetricsDue
    | IdleDue
    | ReadDue
    | WatermarkReportDue
    | LatencyMarkerDue
    | ProcessingTimeDue
    | ChainOpened
    | StageResult
    | CommitPrepared
    | SnapshotWritten
    | ChannelStateWritten
    | CheckpointCommitted
    | ChainClosed
    | WorkDone
    | WorkFailed
    | EngineFailed
    | BufferResponse
    | BacklogAnnouncement
    | ErrorResponse
    | PartitionRequest
    | AddCredit
    | CancelPartitionRequest
    | BuffersResized
    | TriggerCheckpoint
    | NotifyCheckpointComplete
    | NotifyCheckpointAborted
    | AddSplits
    | NoMoreSplits
    | AlignWatermark
    | OperatorEvents
    | GlobalAggregateResults
    | CancelTask
    | CancellationDue
    | PartitionProducerState
    | FailTask
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """Stop the Task: the attempt has ended, and nothing of it runs."""


TaskEffect = Tell[Role | Ref | ResultPartitionId] | StartTimer | LogWarning | EndAttempt | Ignore
"""A partition id stands for the sender of its elements: the producing Task, or the TaskManager that keeps them."""
