"""The JobMaster: runs one job, from its graph to its end.

The actor passes messages to the ExecutionGraph (which tasks run), the SlotPoolService (in which slots) and the
OperatorCoordinatorHandler (which reader gets which splits), and carries out their effects. Its CheckpointCoordinator
handles checkpoints; the JobMaster forwards the tasks' messages to it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import assert_never

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator, de_activator_props
from flykka.actors.checkpoint_coordinator.master_hooks import HooksOfJob
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.data_plane import DataPlane
from flykka.actors.high_availability.services import LeaderStore
from flykka.actors.job_master.failure_history import FailureHistory, FailureHistoryMessage
from flykka.actors.job_master.job_listeners import JobListeners
from flykka.actors.job_master.operator_coordinator_handler import OperatorCoordinatorHandler
from flykka.actors.job_master.operator_coordinators import CoordinatorMessage
from flykka.actors.job_master.rescaling_handler import RescalingHandler, RescalingMessage
from flykka.actors.job_master.resource_cleaner import CleanupMessage, ResourceCleaner
from flykka.actors.job_master.savepoint_handler import SavepointHandler, SavepointMessage
from flykka.actors.job_master.slot_pool_service import SlotMessage, SlotPoolService
from flykka.actors.job_master.state_restorer import StateRestorer, warn_of_approximation, warn_of_loss
from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.graph import events
from flykka.actors.machines.graph.job_waits import JobWaits
from flykka.actors.machines.graph.rescalable_graph import RescalableExecutionGraph
from flykka.actors.machines.restart.restart_strategy import restart_strategy
from flykka.actors.machines.slots.slot_requests import ForgetPriorSlots, RequestSlots, ReturnSlot
from flykka.actors.machines.states import JOB_TERMINAL
from flykka.actors.timer_effects import set_timer
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control import job, job_control
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    CoordinatedTasks,
    CoordinatedTaskStateChanged,
    RequestRestoreState,
    RestoreState,
    RestoreStateFailed,
    SavepointCompleted,
    SavepointFailed,
)
from flykka.messages.control.rescaling import JobResourceRequirements
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.explanation import ExplainJob, JobExplained
from flykka.messages.tasks.source import ReportedWatermark, RequestSplits, SplitsDiscovered
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    ExecutionState,
    NotifyEndOfData,
    ReportTaskMetrics,
    RequestPartitionProducerState,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import LeaderSessionId, OperatorId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.errors import serialized
from flykka.runtime.leader_session import Gateway
from flykka.runtime.mailbox.message_queue import ControlAwareMailbox
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import ESCALATING_STRATEGY

_log = logging.getLogger(__name__)

TaskMessage = AcknowledgeDeployments | UpdateTaskExecutionState | NotifyEndOfData | RequestPartitionProducerState


@trace_tag("actor.job_master")
class JobMaster(Actor):
    """The actor `/user/job-manager/job-<id>`, one per job. It ends with its children, whose state cannot be rebuilt."""

    supervisor_strategy = ESCALATING_STRATEGY
    mailbox = ControlAwareMailbox()

    def __init__(
        self,
        job_graph: JobGraph,
        resource_manager: Ref,
        data_plane: DataPlane,
        storage: CheckpointStorage,
        listeners: Sequence[Ref] = (),
        master_hooks: Sequence[str] = (),
        restore_path: str | None = None,
        *,
        allow_non_restored_state: bool = False,
        labels_failures: bool = False,
        store: LeaderStore,
        info_store: Ref | None = None,
        resource_requirements: JobResourceRequirements | None = None,
    ) -> None:
        self._job_graph = job_graph
        self._job_id = job_graph.job_id
        self._resource_manager = resource_manager
        self._data_plane = data_plane
        self._storage = storage
        self._listeners = JobListeners(job_graph.job_id, listeners)
        self._master_hooks = tuple(master_hooks)
        self._restore_path = restore_path
        self._allow_non_restored_state = allow_non_restored_state
        self._labels_failures = labels_failures
        self._store = store
        self._info_store = info_store
        self._requirements = resource_requirements

    def pre_start(self) -> None:
        context = self.context
        self._session = LeaderSessionId(context.new_id("job-master-session"))
        context.accept_session(self._session)
        hooks = HooksOfJob(self._master_hooks, partial(self._data_plane.master_hooks, self._job_id))
        coordinator = Props(
            CheckpointCoordinator,
            self._job_graph,
            self._storage,
            self._store.checkpoints(self._job_id),
            hooks,
            self._info_store,
        )
        self._coordinator = context.spawn(coordinator, "checkpoint-coordinator")
        self._de_activator = context.spawn(de_activator_props(self._coordinator), "checkpoint-coordinator-de-activator")
        strategy = restart_strategy(self._job_graph.restart_strategy)
        self._graph = RescalableExecutionGraph(self._job_graph, strategy, context.now())
        self._is_deciding = False
        self._waits = JobWaits(context.now())
        self._failures = FailureHistory(
            context, self._job_graph, self._data_plane, self._listeners, labels_failures=self._labels_failures
        )
        context.watch(self._coordinator)
        context.watch(self._de_activator)
        self._savepoints = SavepointHandler(context, self._job_graph, self._coordinator)
        self._cleaner = ResourceCleaner(context, self._job_id, self._data_plane, self._coordinator, self._store)
        self._slots = SlotPoolService(context, self._job_graph, self._session, self._resource_manager, self._listeners)
        self._sources = OperatorCoordinatorHandler(
            context,
            self._graph,
            self._session,
            self._data_plane,
            self._coordinator,
            tell_listeners=self._listeners.tell,
            fail_job=self._fail,
        )
        allow = self._allow_non_restored_state
        self._restorer = StateRestorer(self._graph, self._sources, allow_non_restored_state=allow)
        warn_of_approximation(self._job_graph)
        self._rescaling = RescalingHandler(
            context, self._graph, self._slots, self._listeners, self._coordinator, self._store, self._requirements
        )
        self._slots.start()
        self._decide(self._rescaling.start())

    def handle_message(self, message: Message) -> None:
        match message:
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                self._coordinator.tell(self._sources.on_answer(message))
            case ReportTaskMetrics():
                self._on_metrics(message)
            case _ if isinstance(message, TaskMessage):
                self._decide([message])
            case (
                RequestSplits() | SplitsDiscovered() | job_control.SplitDiscoveryDue() | SnapshotOperatorCoordinators()
            ):
                self._sources.on_message(message)
            case _ if isinstance(message, CoordinatorMessage):
                self._sources.on_function(message)
            case ReportedWatermark() | job_control.WatermarkAlignmentDue():
                self._sources.on_alignment(message)
            case job.CheckpointAborted():
                self._sources.on_message(message)
                self._listeners.tell(message)
            case job.CheckpointCompleted():
                self._sources.on_message(message)
                self._listeners.tell(message)
                self._failures.checkpoint_completed()
                self._decide([message])
            case RestoreState() | RestoreStateFailed():
                self._on_restore_state(message)
            case job_control.SplitDiscoveryFailed(cause=cause):
                self._sources.on_message(message)
                self._fail(cause)
            case CheckpointFailuresExceeded(cause=cause):
                self._fail(cause)
            case job_control.JobRestartDue():
                self._decide(self._rescaling.restart_due(message))
            case job.CancelJob():
                self._cleaner.on_cancel(message)
                self._decide([message])
            case job_control.JobVerticesFinalized() | job_control.DeploymentTimedOut():
                self._decide([message])
            case SavepointCompleted() | SavepointFailed() if self._rescaling.handles(message):
                self._decide(self._rescaling.on_checkpoint(message))
            case _ if isinstance(message, RescalingMessage):
                self._decide(self._rescaling.on_message(message))
            case ExplainJob(reply_to=reply_to):
                reply_to.tell(self.explain(self.context.now()))
            case job.RegisterJobClient():
                self._listeners.register(message, self._graph, self.context.now())
            case _ if isinstance(message, SavepointMessage):
                self._decide(self._savepoints.on_message(message))
            case _ if isinstance(message, CleanupMessage):
                if self._cleaner.on_message(message) and self._failures.end():
                    self._end()
            case _ if isinstance(message, FailureHistoryMessage):
                if self._failures.on_message(message):
                    self._end()
            case Terminated(ref=ref) if ref in (self._coordinator, self._de_activator):
                self._end_with(ref)
            case Terminated(ref=ref):
                self._decide(self._slots.on_terminated(ref))
            case _ if isinstance(message, SlotMessage):
                self._decide(self._slots.on_message(message))
            case _:
                self.context.unhandled(message)

    def unanswered(self) -> dict[OperatorId, Callable[[], SplitsDiscovered]]:
        return self._sources.unanswered()

    def explain(self, now: int) -> JobExplained:
        return self._sources.explained(self._rescaling.explained(self._waits.explain(self._job_id, self._graph, now)))

    def _end_with(self, child: Ref) -> None:
        """Stop, because the pending checkpoints are lost. The next JobMaster starts from the completed checkpoints."""
        _log.error("the JobMaster of job %s ends: %s ended unexpectedly", self._job_id, child.path)
        self.context.stop()

    def _on_metrics(self, message: ReportTaskMetrics) -> None:
        execution = self._graph.execution(message.attempt)
        if execution is not None:
            files = self._sources.files_unassigned(execution.vertex_id)
            self._listeners.report_metrics(message, execution, files)

    def _on_restore_state(self, message: RestoreState | RestoreStateFailed) -> None:
        for event in self._restorer.on_message(message):
            if isinstance(event, events.RestoreStateReady) and self._graph.restoring(event.version):
                self._report_restore(event.checkpoint_id)
            self._decide([event])

    def _report_restore(self, checkpoint_id: int | None) -> None:
        if checkpoint_id is not None or self._graph.number_of_restarts > 0:
            self._listeners.report_restore(checkpoint_id, self.context.now())

    def _fail(self, cause: SerializedThrowable) -> None:
        """Fail the running job for a reason other than its tasks. A job that is ending or restarting is unaffected."""
        if self._graph.status is job.JobStatus.RUNNING:
            self._decide([events.GlobalFailureReported(cause=cause)])

    def _decide(self, new_events: Iterable[events.RescalableEvent]) -> None:
        assert not self._is_deciding, "an effect has handled an event instead of returning it"
        self._is_deciding = True
        # An effect may produce further events, which are handled after all effects of the current event.
        queue = deque(new_events)
        while queue:
            for effect in self._graph.handle(queue.popleft(), self.context.now()):
                queue.extend(self._perform(effect))
                self._on_effect(effect)
        self._is_deciding = False

    def _on_effect(self, effect: events.Effect) -> None:
        now = self.context.now()
        self._waits.on_effect(effect, now)
        self._failures.on_effect(effect, now)

    def _perform(self, effect: events.Effect) -> Sequence[events.RescalableEvent]:
        match effect:
            case RequestSlots() | ReturnSlot() | ForgetPriorSlots():
                return self._slots.place(effect)
            case events.Deploy(descriptor=descriptor, task_manager=task_manager):
                submit = SubmitTask(descriptor=descriptor, job_master=self.context.ref)
                Gateway(task_manager, self._session).tell(submit)
            case Tell(to=to, message=message):
                receiver = self._coordinator if to is Role.CHECKPOINT_COORDINATOR else Gateway(to, self._session)
                receiver.tell(message)
            case events.JobStatusMoved(why=why):
                if why is not None:
                    _log.info("job %s could not be restarted: %s", self._job_id, why)
                self._on_job_status(effect.status, effect.cause)
                return self._rescaling.job_moved(effect.status)
            case events.ExecutionMoved():
                self._on_execution_moved(effect)
            case events.CoordinateTasks(tasks=tasks):
                coordinated = CoordinatedTasks(job_id=self._job_id, tasks=tasks, leader_session_id=self._session)
                self._coordinator.tell(coordinated)
                return self._rescaling.tasks_deployed()
            case events.GraphRescaled():
                self._sources.rescale()
                self._rescaling.graph_rescaled()
            case events.RescaleNotBegun(why=why):
                return self._rescaling.not_started(why)
            case events.AskForRestoreState(version=version):
                self._coordinator.tell(
                    RequestRestoreState(
                        job_id=self._job_id,
                        version=version,
                        path=self._restore_path,
                        allow_non_restored_state=self._allow_non_restored_state,
                    )
                )
            case events.DrawRestartDelay(version=version):
                return [events.RestartDelayDrawn(version=version, chance=self.context.random.random())]
            case events.RestartScheduled(tasks=tasks):
                warn_of_loss(self._job_graph, tasks)
            case StartTimer() | CancelTimer():
                set_timer(self.context, effect)
            case events.FinalizeVertices():
                return self._finalize(effect)
            case Ignore():
                pass
            case _:
                assert_never(effect)
        return ()

    def _on_job_status(self, status: job.JobStatus, cause: SerializedThrowable | None) -> None:
        changed = job.JobStatusChanged(job_id=self._job_id, status=status, timestamp_ms=self.context.now(), cause=cause)
        self._de_activator.tell(changed)
        self._listeners.tell(changed)
        # The graph itself handles what a status change means for a pending stop.
        self._savepoints.job_moved(status, cause)
        if status is job.JobStatus.FAILING:
            self._coordinator.tell(AbortPendingCheckpoints(job_id=self._job_id))
        elif status in JOB_TERMINAL:
            self._slots.end()
            self._cleaner.start(
                job_control.JobEnded(
                    job_id=self._job_id,
                    status=status,
                    cause=cause,
                    checkpoint_path=self._savepoints.stopped_with,
                    accumulators=self._graph.accumulators(),
                )
            )

    def _on_execution_moved(self, move: events.ExecutionMoved) -> None:
        self._listeners.report_move(move, self.context.now())
        self._sources.attempt_moved(move.attempt, move.state, move.failure)
        # The coordinator does not know an attempt before it is deployed.
        if move.previous in (ExecutionState.DEPLOYING, ExecutionState.RUNNING, ExecutionState.CANCELING):
            changed = CoordinatedTaskStateChanged(job_id=self._job_id, attempt=move.attempt, state=move.state)
            self._coordinator.tell(changed)

    def _finalize(self, effect: events.FinalizeVertices) -> Sequence[events.Event]:
        if not effect.has_read_all:
            return [job_control.JobVerticesFinalized(job_id=self._job_id, version=effect.version)]
        self.context.pipe_to_self(
            partial(self._data_plane.finalize_vertices, self._job_id, effect.vertices),
            lambda _: job_control.JobVerticesFinalized(job_id=self._job_id, version=effect.version),
            lambda error: job_control.JobVerticesFinalized(
                job_id=self._job_id, version=effect.version, cause=serialized(error)
            ),
        )
        return ()

    def _end(self) -> None:
        self._slots.disconnect()
        self.context.parent.tell(self._cleaner.end)
        self.context.stop()
