"""The TaskManager: offers its slots to JobMasters as the ResourceManager requests, and runs one Task per attempt.

The actor holds the refs and sessions; the `SlotTable` manages the slots. Messages for a task are forwarded to the Task
of their attempt. A JobMaster is connected from its first allocation until it leaves or is lost; then its tasks end.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from flykka.actors.data_plane import DataPlane
from flykka.actors.heartbeat_manager import HeartbeatManager
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_table import AllocationsKnown, JobConnected, JobDisconnected, JobLost, SlotTable
from flykka.actors.resource_manager_connection import ResourceManagerConnection
from flykka.actors.task_manager.running_tasks import RunningTasks
from flykka.actors.task_manager.task_slots import TaskSlots
from flykka.messages.checkpointing import checkpoint
from flykka.messages.control import registration
from flykka.messages.control.high_availability import JobManagerLeaderAddress
from flykka.messages.control.slots import AcceptSlots, AllocateSlot, FreeSlot, OfferTimedOut, SlotTimedOut
from flykka.messages.graph.job_graph import ResourceSpec, TaskCancellationSettings
from flykka.messages.tasks import task
from flykka.messages.tasks.exchange import AddCredit, CancelPartitionRequest, PartitionRequest, RedistributionDue
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents
from flykka.messages.tasks.source import AddSplits, AlignWatermark, NoMoreSplits
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, JobId, LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.leader_session import Gateway
from flykka.runtime.mailbox.message_queue import ControlAwareMailbox
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import STOPPING_STRATEGY

_log = logging.getLogger(__name__)

_RESOURCE_MANAGER = "resource-manager"
"""The id of the ResourceManager among the heartbeat targets. The other targets are job ids."""


@trace_tag("actor.task_manager")
class TaskManager(Actor):
    """The actor `/user/task-manager-<n>`. A failed Task is not restarted, because a new attempt replaces it."""

    supervisor_strategy = STOPPING_STRATEGY
    mailbox = ControlAwareMailbox()

    def __init__(
        self,
        task_manager_id: TaskManagerId,
        slots: int,
        resource_manager: Ref,
        data_plane: DataPlane,
        *,
        slot_size: ResourceSpec = UNSPECIFIED,
        total: ResourceSpec = UNSPECIFIED,
        task_cancellation: TaskCancellationSettings | None = None,
        network: NetworkSettings | None = None,
    ) -> None:
        self._id = task_manager_id
        self._address = resource_manager
        self._data_plane = data_plane
        self._task_cancellation = task_cancellation or TaskCancellationSettings()
        self._table = SlotTable(task_manager_id, slots, slot_size, total)
        self._network = network
        self._tick_ms: int | None = None
        self._job_masters: dict[JobId, Gateway] = {}
        self._leader_session_id: LeaderSessionId | None = None
        self._leaders: dict[JobId, LeaderSessionId] = {}
        """The sessions of the JobMasters. After a registration, a gateway uses the registration's session instead."""

    def pre_start(self) -> None:
        self._heartbeats = HeartbeatManager(self.context)
        self._tasks = RunningTasks(self.context, self._data_plane, self._task_cancellation, self._network)
        self._resource_manager = ResourceManagerConnection(self.context, self._address, self._introduction)
        self._slots = TaskSlots(
            self.context, self._id, self._table, self._tasks, self._job_masters, self._resource_manager.tell
        )
        self._resource_manager.seek()

    def post_restart(self, cause: BaseException | None) -> None:
        """Stop, so that a new TaskManager takes its place: the slots and tasks of the failed instance are lost."""
        self.context.stop()

    def handle_message(self, message: Message) -> None:
        match message:
            case checkpoint.TriggerCheckpoint():
                self._on_trigger_checkpoint(message)
            case checkpoint.NotifyCheckpointComplete() | checkpoint.NotifyCheckpointAborted():
                self._tasks.forward(message.attempt, message)
            case checkpoint.TaskCheckpointMessages(messages=messages):
                for each in messages:
                    self.handle_message(each)
            case task.CancelTask() | AddSplits() | NoMoreSplits() | AlignWatermark():
                self._tasks.forward(message.attempt, message)
            case OperatorEvents() | GlobalAggregateResults():
                self._tasks.forward(message.attempt, message)
            case PartitionRequest():
                self._tasks.serve(message)
            case AddCredit() | CancelPartitionRequest():
                self._tasks.on_consumer(message)
            case task.AcknowledgementsDue():
                self._slots.acknowledge_deployments()
            case RedistributionDue():
                self._tasks.redistribute()
            case task.UpdateTaskExecutionState(state=reached):
                self._tasks.note(reached)
            case task.KeepPartitions() | task.ReleasePartitions() | task.PartitionsReleased():
                self._tasks.on_message(message)
            case task.PartitionProducerState(attempt=attempt):
                self._tasks.forward(attempt, message)
            case task.FatalErrorOccurred():
                self._on_fatal_error(message)
            case AllocateSlot():
                self._on_allocate_slot(message)
            case (
                task.SubmitTask()
                | AcceptSlots()
                | OfferTimedOut()
                | SlotTimedOut()
                | FreeSlot()
                | registration.ReleaseTaskManager()
            ):
                self._slots.decide(message)
            case Terminated(ref=ref):
                self._on_terminated(ref)
            case _:
                self._on_presence(message)

    def _on_presence(self, message: Message) -> None:
        match message:
            case registration.HeartbeatRequest(origin=origin, allocations=allocations):
                self._on_heartbeat_request(origin, allocations)
            case registration.AskForRelease(idle_period=idle_period):
                may_go = not self._tasks.keeps_results
                answer = registration.ReleaseAnswer(
                    task_manager_id=self._id, idle_period=idle_period, can_be_released=may_go
                )
                self._resource_manager.tell(answer)
            case registration.HeartbeatDue():
                self._on_heartbeat_due()
            case registration.AcknowledgeRegistration(job_id=None):
                self._on_registered(message)
            case registration.AcknowledgeRegistration(job_id=job_id) if job_id is not None:
                self._on_job_master_ready(job_id, message)
            case registration.RefuseRegistration():
                self._on_refused()
            case registration.RegistrationDue():
                self._resource_manager.register()
            case registration.ResourceManagerLeaderAddress(resource_manager=leader):
                if self._resource_manager.has_changed_to(leader):
                    self._seek_resource_manager()
            case registration.DisconnectJobMaster(job_id=job_id):
                self._disconnect(job_id)
            case JobManagerLeaderAddress(leader_session_id=session):
                self._on_leader(session)
            case _:
                self.context.unhandled(message)

    def _on_trigger_checkpoint(self, message: checkpoint.TriggerCheckpoint) -> None:
        job_master = self._job_masters.get(message.job_id)
        if message.attempt not in self._tasks and job_master is not None:
            job_master.tell(_unknown_attempt(message))
        else:
            self._tasks.forward(message.attempt, message)

    def _on_fatal_error(self, error: task.FatalErrorOccurred) -> None:
        """Stop and be replaced, as Flink's TaskManager process does: the state of the tasks here is unknown."""
        _log.error("%s gives up: %s", self._id, error.cause.message)
        self.context.publish(error)
        farewell = registration.DisconnectTaskManager(task_manager_id=self._id, cause=error.cause)
        self._resource_manager.tell(farewell)
        for job_master in self._job_masters.values():
            job_master.tell(farewell)
        self.context.stop()

    def _seek_resource_manager(self) -> None:
        self._heartbeats.unmonitor(_RESOURCE_MANAGER)
        self._resource_manager.seek()

    def _introduction(self) -> registration.RegisterTaskManager:
        network_bytes = 0 if self._network is None else self._network.network_memory_bytes or 0
        return registration.RegisterTaskManager(
            task_manager_id=self._id,
            task_manager=self.context.ref,
            slot_report=self._table.report(),
            network_memory_bytes=network_bytes,
        )

    def _registration(self) -> registration.RegisterTaskManager:
        return registration.RegisterTaskManager(task_manager_id=self._id, task_manager=self.context.ref)

    def _on_registered(self, message: registration.AcknowledgeRegistration) -> None:
        if self._resource_manager.acknowledge(message.leader_session_id):
            self._expect_heartbeats(_RESOURCE_MANAGER, message)

    def _on_refused(self) -> None:
        if self._resource_manager.is_with(self.context.sender):
            # The ResourceManager has given up this TaskManager and started another one.
            self.context.stop()
            return
        jobs = self._jobs_of(self.context.sender)
        for job_id in jobs:
            self._disconnect(job_id)
        if not jobs:
            self.context.reject("the sender was not asked for a registration")

    def _on_allocate_slot(self, message: AllocateSlot) -> None:
        job_id = message.job_id
        session = message.job_leader_session_id
        if self._leaders.get(job_id, session) != session:
            self._leave_former_leader(job_id)
        self._slots.decide(message)
        if job_id not in self._job_masters:
            self._job_masters[job_id] = Gateway(message.job_master, session)
            self._leaders[job_id] = session
            self.context.accept_session(session)
            self.context.watch(message.job_master)
            self._job_masters[job_id].tell(self._registration())

    def _on_job_master_ready(self, job_id: JobId, message: registration.AcknowledgeRegistration) -> None:
        if self._leaders.get(job_id) != message.leader_session_id:
            self.context.reject("another JobMaster is the leader of the job")
            return
        job_master = self._job_masters[job_id].ref
        self._job_masters[job_id] = Gateway(job_master, message.registration_session or message.leader_session_id)
        self._expect_heartbeats(job_id, message)
        self._slots.decide(JobConnected(job_id=job_id))

    def _disconnect(self, job_id: JobId) -> None:
        gateway = self._job_masters.pop(job_id, None)
        if gateway is None:
            return
        self.context.revoke_session(self._leaders.pop(job_id))
        self.context.unwatch(gateway.ref)
        self._heartbeats.unmonitor(job_id)
        self._tasks.release_job(job_id)
        self._slots.decide(JobDisconnected(job_id=job_id))

    def _disconnect_job(self, job_id: JobId, silent_ms: int) -> None:
        """Notify a JobMaster whose heartbeats timed out, in case it is alive, that its tasks end here."""
        job_master = self._job_masters[job_id]
        job_master.tell(self._timeout_disconnect(f"the JobMaster of {job_id}", silent_ms))
        self._tasks.release_job(job_id)
        self._slots.decide(JobLost(job_id=job_id))
        if self._table.holds_slots(job_id):
            # If the JobMaster is alive, it can get its slots back.
            self._job_masters[job_id] = Gateway(job_master.ref, self._leaders[job_id])
            self._job_masters[job_id].tell(self._registration())
        else:
            self._disconnect(job_id)

    def _on_leader(self, session: LeaderSessionId | None) -> None:
        former_session, self._leader_session_id = self._leader_session_id, session
        for job_id in tuple(self._job_masters) if former_session != session else ():
            self._leave_former_leader(job_id)

    def _leave_former_leader(self, job_id: JobId) -> None:
        """Notify a former leader, in case it does not know yet that it no longer leads."""
        text = f"{self._id} was notified of another leader of {job_id}"
        cause = SerializedThrowable(type_name="LeaderLostError", message=text)
        self._job_masters[job_id].tell(registration.DisconnectTaskManager(task_manager_id=self._id, cause=cause))
        self._disconnect(job_id)

    def _jobs_of(self, ref: Ref | None) -> list[JobId]:
        return [job_id for job_id, gateway in self._job_masters.items() if gateway.ref == ref]

    def _on_terminated(self, ref: Ref) -> None:
        ended = self._tasks.remove(ref)
        if ended is not None:
            self._slots.task_ended(ended)
        for job_id in self._jobs_of(ref):
            self._disconnect(job_id)
        if self._resource_manager.is_to(ref):
            self._seek_resource_manager()

    def _on_heartbeat_request(self, origin: Ref, allocations: tuple[AllocationId, ...]) -> None:
        answer = registration.Heartbeat(task_manager_id=self._id, slot_report=self._table.report())
        if self._resource_manager.is_to(origin):
            self._heartbeats.heartbeat_received(_RESOURCE_MANAGER)
            self._resource_manager.tell(answer)
        for job_id in self._jobs_of(origin):
            self._heartbeats.heartbeat_received(job_id)
            self._job_masters[job_id].tell(answer)
            self._slots.decide(AllocationsKnown(job_id=job_id, allocations=allocations))

    def _expect_heartbeats(self, target: str, message: registration.AcknowledgeRegistration) -> None:
        self._heartbeats.monitor(target, message.heartbeat_timeout_ms, is_asked=False)
        # One timer for all JobMasters, with the shortest interval.
        if self._tick_ms is None or message.heartbeat_interval_ms < self._tick_ms:
            self._tick_ms = message.heartbeat_interval_ms
            self._heartbeats.start(self._tick_ms)

    def _on_heartbeat_due(self) -> None:
        for timed_out in self._heartbeats.on_heartbeat_due():
            if timed_out.target == _RESOURCE_MANAGER:
                self._resource_manager.tell(self._timeout_disconnect("the ResourceManager", timed_out.silent_ms))
                self._seek_resource_manager()
            else:
                self._disconnect_job(JobId(timed_out.target), timed_out.silent_ms)

    def _timeout_disconnect(self, leader: str, silent_ms: int) -> registration.DisconnectTaskManager:
        text = f"{self._id} has received no heartbeat of {leader} for {silent_ms} ms"
        cause = SerializedThrowable(type_name="HeartbeatTimeoutError", message=text)
        return registration.DisconnectTaskManager(task_manager_id=self._id, cause=cause, will_return=True)


def _unknown_attempt(trigger: checkpoint.TriggerCheckpoint) -> checkpoint.DeclineCheckpoint:
    return checkpoint.DeclineCheckpoint(
        job_id=trigger.job_id,
        attempt=trigger.attempt,
        checkpoint_id=trigger.checkpoint_id,
        reason=checkpoint.CheckpointDeclineReason.TASK_CHECKPOINT_FAILURE,
    )


@trace_tag("actor.configured_task_managers")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTaskManagers:
    """Creates the props of all TaskManagers of a cluster, each with the same number and size of slots.

    With `total` resources, the TaskManagers create slots of other sizes from unused resources.
    """

    slots: int
    data_plane: DataPlane
    slot_size: ResourceSpec = UNSPECIFIED
    total: ResourceSpec = UNSPECIFIED
    network: NetworkSettings | None = None
    task_cancellation: TaskCancellationSettings | None = None

    def __call__(self, task_manager_id: TaskManagerId, resource_manager: Ref) -> Props:
        props = Props(
            TaskManager,
            task_manager_id,
            self.slots,
            resource_manager,
            self.data_plane,
            slot_size=self.slot_size,
            total=self.total,
            network=self.network,
            task_cancellation=self.task_cancellation,
        )
        return props.with_dispatcher("pinned", may_block=False)
