"""The TaskManager: offers its slots to the JobMasters that the ResourceManager names, and runs a Task per attempt.

It holds the refs and the sessions; the slots are the `SlotTable`'s. Messages for a task are handed on to the Task of
their attempt. A JobMaster is connected from its first allocation until it leaves or is lost; then its tasks end.
"""

from __future__ import annotations

import logging
from typing import assert_never

from flykka.actors.data_plane import DataPlane
from flykka.actors.errors import InsufficientNetworkBuffersError
from flykka.actors.exchange.shuffle_environment import NetworkSettings
from flykka.actors.ignore import Ignore
from flykka.actors.running_tasks import RunningTask, RunningTasks
from flykka.actors.scheduling.heartbeat import (
    HeartbeatEvent,
    HeartbeatMonitor,
    HeartbeatReceived,
    HeartbeatTick,
    MonitorTarget,
    SendHeartbeatRequest,
    TargetTimedOut,
    UnmonitorTarget,
)
from flykka.actors.scheduling.slot_table import SlotTable
from flykka.actors.scheduling.slot_table_events import (
    AllocationRequested,
    AnnounceFreeSlot,
    ConfirmAllocation,
    JobConnected,
    JobDisconnected,
    OfferAnswered,
    OfferToJobMaster,
    RefuseAllocation,
    RejectTask,
    RunTask,
    SlotFreeRequested,
    SlotTableEffect,
    SlotTableEvent,
    StopTask,
    TaskEnded,
    TaskSubmitted,
)
from flykka.messages.checkpoint import (
    AbstractCheckpointMessage,
    CheckpointDeclineReason,
    DeclineCheckpoint,
    TaskCheckpointMessages,
    TriggerCheckpoint,
)
from flykka.messages.exchange import (
    AddCredit,
    CancelPartitionRequest,
    PartitionRequest,
    RedistributionDue,
    TaskEventMessage,
)
from flykka.messages.failure import SerializedThrowable
from flykka.messages.heartbeat import Heartbeat, HeartbeatDue, HeartbeatRequest
from flykka.messages.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.job_graph import TaskCancellationSettings
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    RefuseRegistration,
    RegisterTaskManager,
    RegistrationDue,
    SlotReport,
)
from flykka.messages.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    FreeSlot,
    OfferSlots,
    SlotAvailable,
)
from flykka.messages.source import AddSplits, NoMoreSplits
from flykka.messages.task import (
    CancelTask,
    ExecutionState,
    FailTask,
    FatalErrorOccurred,
    PartitionProducerState,
    SubmitTask,
    TaskDeploymentDescriptor,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.runtime.actor import Actor
from flykka.runtime.leader_session import Gateway
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import STOPPING_STRATEGY

_log = logging.getLogger(__name__)

_RESOURCE_MANAGER = "resource-manager"
"""What the ResourceManager is called among the targets of the heartbeats; the others are job ids."""


class TaskManager(Actor):
    """One of the configured number, `/user/task-manager-<n>`. A Task that fails is not restarted: a new attempt is."""

    supervisor_strategy = STOPPING_STRATEGY

    def __init__(
        self,
        task_manager_id: TaskManagerId,
        slots: int,
        resource_manager: Ref,
        data_plane: DataPlane,
        *,
        registration_retry_ms: int = 1_000,
        task_cancellation: TaskCancellationSettings | None = None,
        network: NetworkSettings | None = None,
    ) -> None:
        self._id = task_manager_id
        self._resource_manager = resource_manager
        self._data_plane = data_plane
        self._registration_retry_ms = registration_retry_ms
        self._task_cancellation = task_cancellation or TaskCancellationSettings()
        self._table = SlotTable(task_manager_id, slots)
        self._network = network
        self._heartbeats = HeartbeatMonitor(asks=False)
        self._tick_ms: int | None = None
        self._registered_at: Gateway | None = None
        self._job_masters: dict[JobId, Gateway] = {}

    def pre_start(self) -> None:
        """Register, and go on registering until somebody answers."""
        self._tasks = RunningTasks(self.context, self._data_plane, self._task_cancellation, self._network)
        self._seek_resource_manager()

    def post_restart(self, cause: BaseException | None) -> None:
        """The slots and tasks of the failed instance are lost: end, so that a new TaskManager takes their place."""
        self.context.stop()

    def handle_message(self, message: Message) -> None:
        """Hand messages for a task on; the rest are about slots or about who is there."""
        match message:
            case AbstractCheckpointMessage():
                self._on_checkpoint_message(message)
            case TaskCheckpointMessages(messages=messages):
                for each in messages:
                    self._on_checkpoint_message(each)
            case CancelTask(attempt=attempt) | AddSplits(attempt=attempt) | NoMoreSplits(attempt=attempt):
                self._tasks.hand_on(attempt, message)
            case PartitionRequest():
                self._tasks.serve(message)
            case AddCredit() | CancelPartitionRequest() | TaskEventMessage():
                self._tasks.hand_to_producer(message)
            case RedistributionDue():
                self._tasks.redistribute()
            case UpdateTaskExecutionState(state=reached):
                self._tasks.note(reached)
            case PartitionProducerState(attempt=attempt):
                self._tasks.hand_on(attempt, message)
            case FatalErrorOccurred():
                self._on_fatal_error(message)
            case SubmitTask(descriptor=descriptor):
                self._decide(TaskSubmitted(descriptor=descriptor))
            case AllocateSlot():
                self._on_allocate_slot(message)
            case AcceptSlots(job_id=job_id, accepted=accepted):
                self._decide(OfferAnswered(job_id=job_id, accepted=accepted))
            case FreeSlot(allocation_id=allocation_id):
                self._decide(SlotFreeRequested(allocation_id=allocation_id))
            case Terminated(ref=ref):
                self._on_terminated(ref)
            case _:
                self._on_presence(message)

    def _on_presence(self, message: Message) -> None:
        """Who is there, and who is not."""
        match message:
            case HeartbeatRequest(origin=origin):
                self._on_heartbeat_request(origin)
            case HeartbeatDue():
                self._watch_over(HeartbeatTick())
            case AcknowledgeRegistration(job_id=None):
                self._on_registered(message)
            case AcknowledgeRegistration(job_id=job_id) if job_id is not None:
                self._on_job_master_ready(job_id, message)
            case RefuseRegistration():
                self._on_refused()
            case RegistrationDue():
                self._register()
            case DisconnectJobMaster(job_id=job_id):
                self._disconnect(job_id)
            case _:
                self.context.unhandled(message)

    # Tasks

    def _on_checkpoint_message(self, message: AbstractCheckpointMessage) -> None:
        job_master = self._job_masters.get(message.job_id)
        if isinstance(message, TriggerCheckpoint) and message.attempt not in self._tasks and job_master is not None:
            decline = DeclineCheckpoint(
                job_id=message.job_id,
                attempt=message.attempt,
                checkpoint_id=message.checkpoint_id,
                reason=CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
            )
            job_master.tell(decline)
        else:
            self._tasks.hand_on(message.attempt, message)

    def _run(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Run the attempt with its share of the buffers; refuse it where there is no share for it."""
        attempt = descriptor.attempt
        try:
            self._tasks.run(descriptor, self._job_masters[descriptor.job_id])
        except InsufficientNetworkBuffersError as refused:
            text = f"{descriptor.vertex.name} ({descriptor.subtask + 1}) cannot run on {self._id}: {refused}"
            self._report_failure(descriptor.job_id, attempt, "InsufficientNetworkBuffersError", text)
            self._decide(TaskEnded(attempt=attempt))

    def _on_task_ended(self, ended: RunningTask) -> None:
        if not ended.reported_its_end:
            self._report_failure(
                ended.job_id, ended.attempt, "TaskLostError", "the actor of the task died without a word"
            )
        self._decide(TaskEnded(attempt=ended.attempt))

    def _report_failure(self, job_id: JobId, attempt: ExecutionAttemptId, type_name: str, text: str) -> None:
        failure = SerializedThrowable(type_name=type_name, message=text)
        reached = TaskExecutionState(attempt=attempt, state=ExecutionState.FAILED, failure=failure)
        # Without a JobMaster there is nobody left to whom the attempt means anything.
        if job_id in self._job_masters:
            self._job_masters[job_id].tell(UpdateTaskExecutionState(state=reached))

    def _on_fatal_error(self, error: FatalErrorOccurred) -> None:
        """Nobody knows what runs here any more: end, as Flink's TaskManager process does, and be replaced."""
        _log.error("%s gives up: %s", self._id, error.cause.message)
        self.context.publish(error)
        self.context.stop()

    # The ResourceManager

    def _seek_resource_manager(self) -> None:
        self._registered_at = None
        self.context.timers.start_fixed_delay("register", self._registration_retry_ms, RegistrationDue())
        self._register()

    def _register(self) -> None:
        self._resource_manager.tell(self._registration(self._table.report()))

    def _registration(self, slot_report: SlotReport | None = None) -> RegisterTaskManager:
        return RegisterTaskManager(task_manager_id=self._id, task_manager=self.context.ref, slot_report=slot_report)

    def _on_registered(self, message: AcknowledgeRegistration) -> None:
        self.context.timers.cancel("register")
        self.context.accept_session(message.leader_session_id)
        self._registered_at = Gateway(self._resource_manager, message.leader_session_id)
        self._expect_heartbeats(_RESOURCE_MANAGER, message)

    def _on_refused(self) -> None:
        if self.context.sender == self._resource_manager:
            # It has given this TaskManager up and started another one.
            self.context.stop()
            return
        for job_id in self._jobs_of(self.context.sender):
            self._disconnect(job_id)

    def _tell_resource_manager(self, message: Message) -> None:
        # While there is none, nothing is lost: a new one asks for a heartbeat at once, which carries the slot report.
        if self._registered_at is not None:
            self._registered_at.tell(message)

    # JobMasters

    def _on_allocate_slot(self, message: AllocateSlot) -> None:
        job_id = message.job_id
        leader = self._job_masters.get(job_id)
        if leader is not None and leader.leader_session_id != message.job_leader_session_id:
            self._disconnect(job_id)
        self._decide(AllocationRequested(slot_id=message.slot_id, job_id=job_id, allocation_id=message.allocation_id))
        if job_id not in self._job_masters:
            self._job_masters[job_id] = Gateway(message.job_master, message.job_leader_session_id)
            self.context.accept_session(message.job_leader_session_id)
            self.context.watch(message.job_master)
            self._job_masters[job_id].tell(self._registration())

    def _on_job_master_ready(self, job_id: JobId, message: AcknowledgeRegistration) -> None:
        leader = self._job_masters.get(job_id)
        if leader is None or leader.leader_session_id != message.leader_session_id:
            self.context.unhandled(message)
            return
        self._expect_heartbeats(job_id, message)
        self._decide(JobConnected(job_id=job_id))

    def _disconnect(self, job_id: JobId) -> None:
        """The JobMaster has left or is lost, and its claims with it."""
        gateway = self._job_masters.pop(job_id, None)
        if gateway is None:
            return
        self.context.revoke_session(gateway.leader_session_id)
        self.context.unwatch(gateway.ref)
        self._watch_over(UnmonitorTarget(target=job_id))
        self._decide(JobDisconnected(job_id=job_id))

    def _jobs_of(self, ref: Ref | None) -> list[JobId]:
        return [job_id for job_id, gateway in self._job_masters.items() if gateway.ref == ref]

    def _on_terminated(self, ref: Ref) -> None:
        ended = self._tasks.remove(ref)
        if ended is not None:
            self._on_task_ended(ended)
        for job_id in self._jobs_of(ref):
            self._disconnect(job_id)

    # Heartbeats

    def _on_heartbeat_request(self, origin: Ref) -> None:
        answer = Heartbeat(task_manager_id=self._id, slot_report=self._table.report())
        if origin == self._resource_manager:
            self._watch_over(HeartbeatReceived(target=_RESOURCE_MANAGER))
            self._tell_resource_manager(answer)
        for job_id in self._jobs_of(origin):
            self._watch_over(HeartbeatReceived(target=job_id))
            self._job_masters[job_id].tell(answer)

    def _expect_heartbeats(self, target: str, message: AcknowledgeRegistration) -> None:
        self._watch_over(MonitorTarget(target=target, timeout_ms=message.heartbeat_timeout_ms))
        # One timer for all, as fast as the fastest needs it.
        if self._tick_ms is None or message.heartbeat_interval_ms < self._tick_ms:
            self._tick_ms = message.heartbeat_interval_ms
            self.context.timers.start_fixed_delay("heartbeat", self._tick_ms, HeartbeatDue())

    # What the machines decide

    def _watch_over(self, event: HeartbeatEvent) -> None:
        for effect in self._heartbeats.handle(event, self.context.now()):
            match effect:
                case TargetTimedOut(target=target) if target == _RESOURCE_MANAGER:
                    self._seek_resource_manager()
                case TargetTimedOut(target=target):
                    self._disconnect(JobId(target))
                case SendHeartbeatRequest():
                    raise AssertionError("the asked side does not ask")
                case Ignore():
                    pass
                case _:
                    assert_never(effect)

    def _decide(self, event: SlotTableEvent) -> None:
        for effect in self._table.handle(event, self.context.now()):
            self._perform(effect)

    def _perform(self, effect: SlotTableEffect) -> None:
        match effect:
            case ConfirmAllocation(slot_id=slot, job_id=job_id, allocation_id=allocation_id):
                confirmation = AllocateSlotConfirmed(slot_id=slot, job_id=job_id, allocation_id=allocation_id)
                self._tell_resource_manager(confirmation)
            case RefuseAllocation(slot_id=slot, allocation_id=allocation_id, occupied_by=holder):
                refusal = AllocateSlotRefused(slot_id=slot, allocation_id=allocation_id, occupied_by=holder)
                self._tell_resource_manager(refusal)
            case AnnounceFreeSlot(slot_id=slot, allocation_id=allocation_id):
                self._tell_resource_manager(SlotAvailable(slot_id=slot, allocation_id=allocation_id))
            case OfferToJobMaster(job_id=job_id, offers=offers):
                self._job_masters[job_id].tell(OfferSlots(task_manager_id=self._id, offers=offers))
            case RunTask(descriptor=descriptor):
                self._run(descriptor)
            case RejectTask(job_id=job_id, attempt=attempt, reason=reason):
                self._report_failure(job_id, attempt, "TaskSubmissionError", reason)
            case StopTask(attempt=attempt):
                # Not a cancellation: nobody asked for one, and the JobMaster, where it still lives, has to act on it.
                text = f"{self._id} has given up the slot of {attempt}"
                cause = SerializedThrowable(type_name="SlotGivenUpError", message=text)
                self._tasks.hand_on(attempt, FailTask(attempt=attempt, cause=cause))
            case Ignore():
                pass
            case _:
                assert_never(effect)
