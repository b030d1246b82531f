"""The Task: the actor of one execution attempt.

The actor passes every message to its state machine, `StreamTask`, and carries out the effects. Its only child is the
bridge of the attempt, which processes the rows.
"""

from __future__ import annotations

import logging
from typing import assert_never, cast, get_args

from flykka.actors.data_plane import DataPlane
from flykka.actors.machines.attempt import events
from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.effects import Ignore, LogWarning, Role, StartTimer, Tell
from flykka.actors.timer_effects import set_timer
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.monitoring.explanation import ExplainTask, TaskExplained
from flykka.messages.tasks.exchange import BacklogAnnouncement, BufferResponse, PartitionRequest
from flykka.messages.tasks.task import MetricsDue, TaskDeploymentDescriptor, UpdateTaskExecutionState
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

_EVENTS = frozenset(get_args(events.TaskEvent))
"""A set, because `isinstance` would test the many classes of the union one by one."""


@trace_tag("actor.task")
class Task(Actor):
    """Runs one execution attempt. A failed bridge is not restarted: a new attempt replaces the whole Task."""

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
        self._machine = StreamTask(self._descriptor, self.context.ref, self._cancellation)
        self._bridge = self.context.spawn(self._data_plane.bridge_props(self._descriptor), "bridge")
        self.context.watch(self._bridge)
        self.context.timers.start_fixed_delay("metrics", self._descriptor.metrics_interval_ms, MetricsDue())
        self._decide(events.StartTask())

    def handle_message(self, message: Message) -> None:
        match message:
            # The most frequent messages come first, because a match tests class by class.
            case BufferResponse(partition_id=partition_id) | BacklogAnnouncement(partition_id=partition_id):
                # Credit is sent directly to the sender, not through its TaskManager.
                sender = self.context.sender
                if sender is not None:
                    self._producers[partition_id] = sender
                self._decide(message)
            case Terminated(ref=ref) if ref == self._bridge:
                self._decide(events.BridgeLost(cause=_bridge_died(self._bridge.path)))
            case Terminated(ref=ref):
                self._decide(events.ConnectionLost(task_manager=ref))
            case ExplainTask(reply_to=reply_to):
                reply_to.tell(self.explain(self.context.now()))
            case _ if type(message) in _EVENTS:
                self._decide(cast(events.TaskEvent, message))
            case _:
                self.context.unhandled(message)

    def explain(self, now: int) -> TaskExplained:
        return self._machine.explain(now)

    def _decide(self, event: events.TaskEvent) -> None:
        for effect in self._machine.handle(event, self.context.now()):
            self._perform(effect)

    def _perform(self, effect: events.TaskEffect) -> None:
        match effect:
            case Tell(to=to, message=message):
                self._tell(to, message)
            case StartTimer():
                set_timer(self.context, effect)
            case LogWarning(text=text):
                _log.warning("%s: %s", self._descriptor.attempt, text)
            case events.EndAttempt():
                self.context.unwatch(self._bridge)
                self.context.stop()
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _tell(self, to: Role | Ref | ResultPartitionId, message: Message) -> None:
        match to:
            case Ref():
                if isinstance(message, PartitionRequest) and to != self.context.parent:
                    # A TaskManager that has ended answers no request. (This actor ends with its own parent anyway.)
                    self.context.watch(to)
                to.tell(message)
            case Role():
                self._tell_role(to, message)
            case partition_id:
                self._producers[partition_id].tell(message)

    def _tell_role(self, role: Role, message: Message) -> None:
        match role:
            case Role.BRIDGE:
                self._bridge.tell(message)
            case Role.JOB_MASTER:
                self._job_master.tell(message)
                if isinstance(message, UpdateTaskExecutionState):
                    # The TaskManager reports the end of a Task that died before it could report.
                    self.context.parent.tell(message)
            case Role.TASK_MANAGER:
                self.context.parent.tell(message)
            case Role.SENDER:
                if self.context.sender is not None:
                    self.context.sender.tell(message)
            case _:
                raise AssertionError(f"a Task has no {role}")


def _bridge_died(path: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="BridgeLostError", message=f"the bridge {path} ended unexpectedly")
