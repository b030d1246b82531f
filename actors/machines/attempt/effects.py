"""Effects that the machine of a Task asks its shell to perform."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.exchange.checkpoint_barrier_handler import StartAlignmentTimer
from flykka.actors.machines.exchange.effects import TellPeer
from flykka.messages.tasks.exchange import AddCredit
from flykka.messages.tasks.task import FinishedPartition
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellBridge:
    """Tell the bridge of this attempt."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellJobMaster:
    """Tell the JobMaster, under its leader session."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellProducer:
    """Tell the sender of elements of `message.partition_id`: its Task, or the TaskManager that keeps it."""

    message: AddCredit


@dataclass(frozen=True, slots=True, kw_only=True)
class TellSender:
    """Answer the sender of the message at hand."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPartitionRequest:
    """Come back with `PartitionRequestDue(channel)` after `delay_ms`."""

    channel: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReadTimer:
    """Come back with `ReadDue` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWatermarkReportTimer:
    """Come back with `WatermarkReportDue` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartIdleTimer:
    """Come back with `IdleDue` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLatencyTimer:
    """Come back with `LatencyMarkerDue` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProcessingTimer:
    """Come back with `ProcessingTimeDue` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWarning:
    """Something is odd in the data of the user, who may want to know."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCancellationTimer:
    """Come back with `CancellationDue` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFatalError:
    """The attempt does not end: tell the TaskManager, which can no longer answer for what it runs."""

    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepResults:
    """Hand what outlives the attempt over to the TaskManager."""

    partitions: tuple[FinishedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """The attempt is over and nothing of it runs: stop."""


TaskEffect = (
    TellBridge
    | TellJobMaster
    | TellPeer
    | TellProducer
    | TellSender
    | RetryPartitionRequest
    | StartReadTimer
    | StartWatermarkReportTimer
    | StartIdleTimer
    | StartLatencyTimer
    | StartProcessingTimer
    | StartAlignmentTimer
    | LogWarning
    | StartCancellationTimer
    | ReportFatalError
    | KeepResults
    | EndAttempt
    | Ignore
)
