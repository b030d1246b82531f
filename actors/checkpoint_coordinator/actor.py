"""The CheckpointCoordinator of a job: a child of its JobMaster, which forwards the tasks' messages to it.

The actor passes messages to its state machine and carries out the resulting effects: it sends messages to tasks through
the gateways of their TaskManagers, starts timers, and lets the storage write and delete on the system's I/O pool.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import assert_never

from flykka.actors.checkpoint_coordinator.master_hooks import HooksOfJob, hook_failed
from flykka.actors.checkpoint_coordinator.storage_view import CheckpointStorageView, CheckpointStoreMessage
from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import serialize_error
from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.coordinator import CheckpointCoordinatorMachine
from flykka.actors.machines.checkpoint.events import CheckpointReport, CoordinatorEffect, CoordinatorEvent
from flykka.actors.machines.checkpoint.failure_manager import without_numbers
from flykka.actors.machines.checkpoint.pending import CoordinatedJob, PlannedTask, explain_checkpoints
from flykka.actors.machines.checkpoint.properties import for_checkpoint, for_savepoint
from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.actors.machines.rescaling.requirements import parallelism_of, with_parallelism
from flykka.actors.machines.state.handles import operator_metadata
from flykka.actors.timer_effects import set_timer
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    ForTask,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TaskCheckpointMessages,
    TriggerCheckpoint,
)
from flykka.messages.checkpointing.statistics import (
    CheckpointReportDue,
    CheckpointTriggered,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.control import checkpoint_coordination
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus, JobStatusChanged
from flykka.messages.graph.job_graph import JobGraph, OperatorKind
from flykka.messages.monitoring.explanation import CheckpointsExplained, ExplainCheckpoints
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props
from flykka.runtime.repeated_log import RepeatedLog, is_reported

_log = logging.getLogger(__name__)

REPORT_INTERVAL_MS = 1_000
"""Interval in milliseconds at which collected acknowledgements are reported. It limits the messages about a checkpoint
of ten thousand tasks, and shows the progress of a slow checkpoint after a second.
"""
_REPORT_TIMER = "checkpoint-report"


@trace_tag("actor.checkpoint_coordinator")
class CheckpointCoordinator(Actor):
    """The actor is never restarted, because its state machine cannot be rebuilt: its JobMaster fails with it."""

    def __init__(
        self,
        job_graph: JobGraph,
        storage: CheckpointStorage,
        checkpoints: CheckpointPointers,
        hooks: HooksOfJob | None = None,
        info_store: Ref | None = None,
    ) -> None:
        self._job_id = job_graph.job_id
        self._job_graph = job_graph
        self._info_store = info_store
        self._retention = job_graph.checkpointing.retention
        self._hooks = hooks or HooksOfJob()
        self._storage = storage
        self._checkpoints = checkpoints
        self._tasks = TaskGateways()
        self._events: deque[CoordinatorEvent] = deque()
        self._repeated = RepeatedLog(__name__)
        operators = (operator for vertex in job_graph.vertices for operator in vertex.operators)
        self._machine = CheckpointCoordinatorMachine(
            CoordinatedJob(
                job_id=job_graph.job_id,
                name=job_graph.name,
                operators=operator_metadata(job_graph),
                session_settings=job_graph.session_settings,
            ),
            job_graph.checkpointing,
            # Every source has a split enumerator in the JobMaster.
            operator_coordinators=any(
                operator.has_coordinator or operator.kind is OperatorKind.SOURCE for operator in operators
            ),
            master_hooks=self._hooks.identifiers,
        )

    def pre_start(self) -> None:
        self._reports = CheckpointReports(self.context, self._job_id, self._info_store)
        self._storage_view = CheckpointStorageView(self.context, self._job_id, self._storage, self._checkpoints)
        self._storage_view.start_recovery()

    def handle_message(self, message: Message) -> None:
        match message:
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                self._decide(message)
            case CheckpointReportDue():
                self._reports.flush()
            case checkpoint_coordination.MasterHooksClosed(cause=cause):
                if cause is not None:
                    _log.warning("job %s: %s", self._job_id, cause.message)
            case checkpoint_coordination.CoordinatedTasks():
                self._on_tasks(message)
            case checkpoint_coordination.SavepointRequest(target_location=target_location, request_id=request_id):
                properties = for_savepoint(target_location)
                self._decide(events.TriggerRequested(properties=properties, request_id=request_id))
            case checkpoint_coordination.CheckpointRequest(request_id=request_id, is_full=is_full):
                properties = for_checkpoint(self._retention, is_full=is_full)
                self._decide(events.TriggerRequested(properties=properties, request_id=request_id))
            case checkpoint_coordination.MetadataReadFailed(version=version, cause=cause):
                failed = checkpoint_coordination.RestoreStateFailed(job_id=self._job_id, version=version, cause=cause)
                self.context.parent.tell(failed)
            case _ if isinstance(message, CheckpointStoreMessage):
                event = self._storage_view.on_message(message)
                if event is not None:
                    self._decide(event)
            case _ if isinstance(message, CoordinatorEvent):
                self._decide(message)
            case ExplainCheckpoints(reply_to=reply_to):
                reply_to.tell(self.explain(self.context.now()))
            case _:
                self.context.unhandled(message)

    def explain(self, now: int) -> CheckpointsExplained:
        return explain_checkpoints(self._job_id, self._machine.pending.values(), now)

    def _on_tasks(self, message: checkpoint_coordination.CoordinatedTasks) -> None:
        self._tasks.replace_tasks(message.tasks, message.leader_session_id)
        names = {vertex.vertex_id: vertex.name for vertex in self._job_graph.vertices}
        planned_tasks = tuple(
            PlannedTask(
                attempt=task.attempt,
                vertex_id=task.vertex_id,
                subtask=task.subtask,
                parallelism=task.parallelism,
                max_parallelism=task.max_parallelism,
                state=task.state,
                is_source=task.is_source,
                name=f"{names[task.vertex_id]} ({task.subtask + 1}/{task.parallelism})",
                task_manager=task.task_manager.path.rpartition("/")[2],
            )
            for task in message.tasks
        )
        parallelism = {task.vertex_id: task.parallelism for task in message.tasks}
        if parallelism == parallelism_of(self._job_graph):
            self._decide(events.TasksChanged(tasks=planned_tasks))
            return
        self._job_graph = with_parallelism(self._job_graph, parallelism)
        self._decide(events.TasksChanged(tasks=planned_tasks, operators=operator_metadata(self._job_graph)))

    def _decide(self, event: CoordinatorEvent) -> None:
        # Performing an effect may produce the next event, which is handled after all effects of the current event.
        self._events.append(event)
        if len(self._events) > 1:
            return
        while self._events:
            for effect in self._machine.handle(self._events[0], self.context.now()):
                self._try_to_perform(effect)
            self._tasks.send()
            self._events.popleft()

    def _try_to_perform(self, effect: CoordinatorEffect) -> None:
        """Perform an effect. If an effect of a pending checkpoint raises, only that checkpoint fails."""
        try:
            self._perform(effect)
        except Exception as error:
            checkpoint_id: int | None = getattr(effect, "checkpoint_id", None)
            if checkpoint_id not in self._machine.pending:
                raise
            name = type(effect).__name__
            _log.exception("job %s: %s failed, and so did checkpoint %d", self._job_id, name, checkpoint_id)
            self._events.append(events.EffectFailed(checkpoint_id=checkpoint_id, cause=serialize_error(error)))

    def _perform(self, effect: CoordinatorEffect) -> None:
        match effect:
            case events.DrawCheckpointId():
                drawn_id = self._storage_view.draw_id()
                if drawn_id is not None:
                    self._decide(drawn_id)
            case StartTimer() | CancelTimer():
                set_timer(self.context, effect)
            case TriggerCheckpoint() | NotifyCheckpointComplete() | NotifyCheckpointAborted():
                self._tasks.add(effect)
            case events.WriteMetadata():
                self._storage_view.write_metadata(effect)
            case events.ReadMetadata():
                self._storage_view.read_metadata(effect)
            case events.Dispose() | events.DeleteJob():
                self._storage_view.delete(effect)
            case events.TriggerMasterHooks() | events.RestoreMasterHooks() | events.CloseMasterHooks():
                self._use_hooks(effect)
            case CheckpointTriggered() | SubtasksAcknowledged():
                self._reports.add(effect)
            case events.EventFailed(event=event, error=error, cost=cost):
                _log.error(
                    "job %s: %s could not be handled, so that %s fails", self._job_id, event, cost, exc_info=error
                )
            case events.LateAcknowledgement(reason=reason):
                self._repeated.write(logging.INFO, without_numbers(reason), f"job {self._job_id}: {reason}")
            case Ignore(reason=reason):
                _log.debug("job %s: %s", self._job_id, reason)
            case events.TriggerDeclined(cause=SerializedThrowable() as cause):
                _log.warning("job %s takes no checkpoint for now: %s", self._job_id, cause.message)
            case events.TriggerDeclined(blocking=(first, *others)):
                also = f" ({len(others)} other tasks are not running either)" if others else ""
                text = f"job {self._job_id}: no checkpoint begins: {first.where} is {first.state}{also}"
                self._repeated.write(logging.INFO, text, text)
            case events.TriggerDeclined(reason=declined):
                _log.debug("job %s: no checkpoint now: %s", self._job_id, declined)
            case CheckpointCompleted():
                self._reports.flush()
                self.context.parent.tell(effect)
            case CheckpointAborted(checkpoint_id=checkpoint_id, failure=failure):
                self._reports.flush()
                if failure is not None and is_reported(failure.times):
                    _log.warning("job %s: checkpoint %d failed: %s", self._job_id, checkpoint_id, failure)
                self.context.parent.tell(effect)
            case _:
                self.context.parent.tell(effect)

    def _use_hooks(
        self, effect: events.TriggerMasterHooks | events.RestoreMasterHooks | events.CloseMasterHooks
    ) -> None:
        match effect:
            case events.TriggerMasterHooks(checkpoint_id=checkpoint_id, timestamp_ms=timestamp_ms):
                self.context.pipe_to_self(
                    partial(self._hooks.trigger, checkpoint_id, timestamp_ms),
                    lambda states: checkpoint_coordination.MasterHooksTriggered(
                        checkpoint_id=checkpoint_id, states=states
                    ),
                    partial(hook_failed, checkpoint_id),
                )
            case events.RestoreMasterHooks(version=version, checkpoint_id=restored_id, states=states):
                self.context.pipe_to_self(
                    partial(self._hooks.restore, restored_id, states),
                    lambda _: checkpoint_coordination.MasterHooksRestored(version=version),
                    lambda error: checkpoint_coordination.MasterHookRestoreFailed(
                        version=version, cause=serialized(error)
                    ),
                )
            case events.CloseMasterHooks():
                self.context.pipe_to_self(
                    self._hooks.close,
                    lambda _: checkpoint_coordination.MasterHooksClosed(),
                    lambda error: checkpoint_coordination.MasterHooksClosed(cause=serialized(error)),
                )
            case unreachable:
                assert_never(unreachable)


class TaskGateways:
    """Sends messages to tasks, grouped into one message per TaskManager. Used only in the coordinator's turns.

    A checkpoint may notify ten thousand tasks that run in a few TaskManagers.
    """

    def __init__(self) -> None:
        self._gateways: dict[ExecutionAttemptId, Gateway] = {}
        self._unsent: dict[Gateway, list[ForTask]] = {}

    def replace_tasks(
        self, tasks: Iterable[checkpoint_coordination.CoordinatedTask], leader_session_id: LeaderSessionId
    ) -> None:
        gateways: dict[Ref, Gateway] = {}
        self._gateways.clear()
        for task in tasks:
            gateway = gateways.setdefault(task.task_manager, Gateway(task.task_manager, leader_session_id))
            self._gateways[task.attempt] = gateway

    def add(self, message: ForTask) -> None:
        self._unsent.setdefault(self._gateways[message.attempt], []).append(message)

    def send(self) -> None:
        """Send the queued messages to each TaskManager in the order in which they were added."""
        for gateway, messages in self._unsent.items():
            gateway.tell(messages[0] if len(messages) == 1 else TaskCheckpointMessages(messages=tuple(messages)))
        self._unsent.clear()


class CheckpointReports:
    def __init__(self, context: ActorContext, job_id: JobId, info_store: Ref | None) -> None:
        self._context = context
        self._job_id = job_id
        self._info_store = info_store
        self._acknowledged: dict[int, list[SubtaskCheckpointStatistics]] = {}

    def add(self, report: CheckpointReport) -> None:
        """Send the report of a triggered checkpoint at once, and an acknowledgement with the next `flush`."""
        if self._info_store is None:
            return
        match report:
            case CheckpointTriggered():
                self._info_store.tell(report)
            case SubtasksAcknowledged(checkpoint_id=checkpoint_id, subtasks=subtasks):
                if not self._acknowledged:
                    self._context.timers.start_once(_REPORT_TIMER, REPORT_INTERVAL_MS, CheckpointReportDue())
                self._acknowledged.setdefault(checkpoint_id, []).extend(subtasks)

    def flush(self) -> None:
        """Send the collected acknowledgements. Called by the timer, and before a checkpoint ends."""
        if self._info_store is None or not self._acknowledged:
            return
        self._context.timers.cancel(_REPORT_TIMER)
        for checkpoint_id, subtasks in self._acknowledged.items():
            self._info_store.tell(
                SubtasksAcknowledged(job_id=self._job_id, checkpoint_id=checkpoint_id, subtasks=tuple(subtasks))
            )
        self._acknowledged.clear()


@trace_tag("actor.checkpoint_coordinator_de_activator")
class CheckpointCoordinatorDeActivator(Actor):
    """Starts periodic checkpoints when the job is RUNNING, and stops them in every other status.

    The actor is an ordinary job status listener, so the coordinator need not know the job's states.
    """

    def __init__(self, coordinator: Ref) -> None:
        self._coordinator = coordinator

    def handle_message(self, message: Message) -> None:
        match message:
            case JobStatusChanged(job_id=job_id, status=JobStatus.RUNNING):
                self._coordinator.tell(checkpoint_coordination.StartCheckpointScheduler(job_id=job_id))
            case JobStatusChanged(job_id=job_id):
                self._coordinator.tell(checkpoint_coordination.StopCheckpointScheduler(job_id=job_id))
            case _:
                self.context.unhandled(message)


def de_activator_props(coordinator: Ref) -> Props:
    return Props(CheckpointCoordinatorDeActivator, coordinator).with_dispatcher("pinned", may_block=False)
