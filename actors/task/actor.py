"""The Task: the actor of one execution attempt.

It hands every message to its machine, `StreamTask`, and does what the machine decides. Beside it runs the bridge of
the attempt, its only child, which moves the rows.
"""

from __future__ import annotations

import logging
from typing import assert_never, cast, get_args

from flykka.actors.data_plane import DataPlane
from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.attempt.effects import (
    EndAttempt,
    KeepResults,
    LogWarning,
    ReportFatalError,
    RetryPartitionRequest,
    StartCancellationTimer,
    StartIdleTimer,
    StartLatencyTimer,
    StartProcessingTimer,
    StartReadTimer,
    StartWatermarkReportTimer,
    TaskEffect,
    TellBridge,
    TellJobMaster,
    TellProducer,
    TellSender,
)
from flykka.actors.machines.attempt.events import BridgeLost, ConnectionLost, StartTask, TaskEvent
from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.exchange.checkpoint_barrier_handler import StartAlignmentTimer
from flykka.actors.machines.exchange.effects import TellPeer
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.monitoring.explanation import ExplainTask, TaskExplained
from flykka.messages.tasks.exchange import (
    AlignmentTimeoutDue,
    BacklogAnnouncement,
    BufferResponse,
    PartitionRequest,
    PartitionRequestDue,
)
from flykka.messages.tasks.task import (
    CancellationDue,
    FatalErrorOccurred,
    IdleDue,
    KeepPartitions,
    LatencyMarkerDue,
    MetricsDue,
    ProcessingTimeDue,
    ReadDue,
    TaskDeploymentDescriptor,
    UpdateTaskExecutionState,
    WatermarkReportDue,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.leader_session import Gateway
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import STOPPING_STRATEGY

_log = logging.getLogger(__name__)

_EVENTS = frozenset(get_args(TaskEvent))
"""Looked up for every message: of a union of so many classes `isinstance` asks one after the other."""


@trace_tag("actor.task")
class Task(Actor):
    """Runs one execution attempt. The bridge is not restarted when it fails: a new attempt is."""

    supervisor_strategy = STOPPING_STRATEGY

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        job_master: Gateway,
        data_plane: DataPlane,
        cancellation: TaskCancellationSettings | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._job_master = job_master
        self._data_plane = data_plane
        self._cancellation = cancellation
        self._producers: dict[ResultPartitionId, Ref] = {}

    def pre_start(self) -> None:
        """Start the bridge and let it restore."""
        self._machine = StreamTask(self._descriptor, self.context.ref, self._cancellation)
        self._bridge = self.context.spawn(self._data_plane.bridge_props(self._descriptor), "bridge")
        self.context.watch(self._bridge)
        self.context.timers.start_fixed_delay("metrics", self._descriptor.metrics_interval_ms, MetricsDue())
        self._decide(StartTask())

    def handle_message(self, message: Message) -> None:
        """Everything but the bridge's death is the machine's to decide."""
        match message:
            # What comes most often first: a match asks class by class.
            case BufferResponse(partition_id=partition_id) | BacklogAnnouncement(partition_id=partition_id):
                # Credit goes straight to the sender, not by way of its TaskManager.
                sender = self.context.sender
                if sender is not None:
                    self._producers[partition_id] = sender
                self._decide(message)
            case Terminated(ref=ref) if ref == self._bridge:
                self._decide(BridgeLost(cause=_bridge_died(self._bridge.path)))
            case Terminated(ref=ref):
                self._decide(ConnectionLost(task_manager=ref))
            case ExplainTask(reply_to=reply_to):
                reply_to.tell(self.explain(self.context.now()))
            case _ if type(message) in _EVENTS:
                self._decide(cast(TaskEvent, message))
            case _:
                self.context.unhandled(message)

    def explain(self, now: int) -> TaskExplained:
        """Explain what the attempt does, and what it waits for."""
        return self._machine.explain(now)

    def _decide(self, event: TaskEvent) -> None:
        for effect in self._machine.handle(event, self.context.now()):
            self._perform(effect)

    def _perform(self, effect: TaskEffect) -> None:
        match effect:
            case TellBridge(message=message):
                self._bridge.tell(message)
            case TellJobMaster(message=message):
                self._job_master.tell(message)
                if isinstance(message, UpdateTaskExecutionState):
                    # The TaskManager speaks for a Task that dies without having told how its attempt ended.
                    self.context.parent.tell(message)
            case TellPeer(receiver=receiver, message=message):
                if isinstance(message, PartitionRequest) and receiver != self.context.parent:
                    # What is asked of somebody who has ended is never answered. (With the parent this actor ends too.)
                    self.context.watch(receiver)
                receiver.tell(message)
            case TellProducer(message=message):
                self._producers[message.partition_id].tell(message)
            case TellSender(message=message):
                if self.context.sender is not None:
                    self.context.sender.tell(message)
            case RetryPartitionRequest(channel=channel, delay_ms=delay_ms):
                due = PartitionRequestDue(channel=channel)
                self.context.timers.start_once(f"partition-request-{channel}", delay_ms, due)
            case StartAlignmentTimer(checkpoint_id=checkpoint_id, delay_ms=delay_ms):
                # One is enough: barriers of a newer checkpoint mean that this one is over.
                timeout = AlignmentTimeoutDue(checkpoint_id=checkpoint_id)
                self.context.timers.start_once("alignment", delay_ms, timeout)
            case StartReadTimer(delay_ms=delay_ms):
                self.context.timers.start_once("read", delay_ms, ReadDue())
            case StartWatermarkReportTimer(delay_ms=delay_ms):
                self.context.timers.start_once("watermark-report", delay_ms, WatermarkReportDue())
            case StartIdleTimer(delay_ms=delay_ms):
                self.context.timers.start_once("idle", delay_ms, IdleDue())
            case StartLatencyTimer(delay_ms=delay_ms):
                self.context.timers.start_once("latency-marker", delay_ms, LatencyMarkerDue())
            case StartProcessingTimer(delay_ms=delay_ms):
                self.context.timers.start_once("processing-time", delay_ms, ProcessingTimeDue())
            case LogWarning(text=text):
                _log.warning("%s: %s", self._descriptor.attempt, text)
            case StartCancellationTimer(delay_ms=delay_ms):
                self.context.timers.start_once("cancellation", delay_ms, CancellationDue())
            case ReportFatalError(cause=cause):
                self.context.parent.tell(FatalErrorOccurred(attempt=self._descriptor.attempt, cause=cause))
            case KeepResults(partitions=partitions):
                self.context.parent.tell(KeepPartitions(attempt=self._descriptor.attempt, partitions=partitions))
            case EndAttempt():
                self.context.unwatch(self._bridge)
                self.context.stop()
            case Ignore():
                pass
            case _:
                assert_never(effect)


def _bridge_died(path: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="BridgeLostError", message=f"the bridge {path} ended by itself")
