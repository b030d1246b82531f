"""Events and effects of a Task's state machine. Most events are messages to the Task; its actor creates three."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore, LogWarning, Role, StartTimer, Tell
from flykka.messages.attempt import answers
from flykka.messages.checkpointing.checkpoint import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.tasks import exchange, task
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents
from flykka.messages.tasks.source import AddSplits, AlignWatermark, NoMoreSplits
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeLost:
    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """Reports that a TaskManager to which a partition request was sent has ended."""

    task_manager: Ref


TaskEvent = (
    StartTask
    | BridgeLost
    | ConnectionLost
    | exchange.PartitionRequestDue
    | exchange.AlignmentTimeoutDue
    | exchange.MiniBatchDue
    | task.MetricsDue
    | task.IdleDue
    | task.ReadDue
    | task.WatermarkReportDue
    | task.LatencyMarkerDue
    | task.ProcessingTimeDue
    | answers.ChainOpened
    | answers.StageResult
    | answers.CommitPrepared
    | answers.SnapshotWritten
    | answers.ChannelStateWritten
    | answers.CheckpointCommitted
    | answers.ChainClosed
    | answers.WorkDone
    | answers.WorkFailed
    | answers.EngineFailed
    | exchange.BufferResponse
    | exchange.BacklogAnnouncement
    | exchange.ErrorResponse
    | exchange.PartitionRequest
    | exchange.AddCredit
    | exchange.CancelPartitionRequest
    | exchange.BuffersResized
    | TriggerCheckpoint
    | NotifyCheckpointComplete
    | NotifyCheckpointAborted
    | AddSplits
    | NoMoreSplits
    | AlignWatermark
    | OperatorEvents
    | GlobalAggregateResults
    | task.CancelTask
    | task.CancellationDue
    | task.PartitionProducerState
    | task.FailTask
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """Stops the Task: the attempt has ended and all its work has stopped."""


TaskEffect = Tell[Role | Ref | ResultPartitionId] | StartTimer | LogWarning | EndAttempt | Ignore
"""Effects of a Task. A partition id as receiver stands for the sender of its elements: the producing Task, or the
TaskManager that retains the partition.
"""
