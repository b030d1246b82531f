"""The part of a JobMaster that communicates with the ResourceManager and the TaskManagers (Flink's SlotPoolService).

It holds their refs and sessions, delegates decisions about slots to the ExecutionSlotAllocator, and returns events for
the ExecutionGraph. If the ResourceManager is lost, the job continues while a new one is looked up. A TaskManager sends
under its own session, which ends when the TaskManager is lost: later messages of it or its tasks are rejected.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.heartbeat_manager import HeartbeatManager
from flykka.actors.job_master.job_listeners import JobListeners
from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.slots import slot_pool
from flykka.actors.machines.slots.execution_slot_allocator import (
    AllocatorEffect,
    AllocatorEvent,
    ExecutionSlotAllocator,
)
from flykka.actors.machines.slots.slot_requests import (
    ForgetPriorSlots,
    RequestSlots,
    ReturnSlot,
    SlotAllocated,
    SlotAllocationFailed,
    SlotAnswer,
    SlotsLost,
)
from flykka.actors.resource_manager_connection import ResourceManagerConnection
from flykka.actors.timer_effects import set_timer
from flykka.messages.control.job import TaskManagerLost
from flykka.messages.control.job_control import IdleSlotsDue, SlotRequestTimedOut
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    DisconnectResourceManager,
    DisconnectTaskManager,
    Heartbeat,
    HeartbeatDue,
    HeartbeatRequest,
    JobMasterHeartbeat,
    JobMasterRegistrationSuccess,
    RegisterJobMaster,
    RegisterTaskManager,
    RegistrationDue,
)
from flykka.messages.control.slots import FailSlot, OfferSlots, SlotRequestFailed
from flykka.messages.graph.job_graph import JobGraph, JobType
from flykka.messages.monitoring.explanation import ExplainSlots
from flykka.messages.wire.ids import LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref, is_former
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway

SlotMessage = (
    RegisterTaskManager
    | OfferSlots
    | Heartbeat
    | HeartbeatDue
    | HeartbeatRequest
    | RegistrationDue
    | JobMasterRegistrationSuccess
    | DisconnectResourceManager
    | DisconnectTaskManager
    | SlotRequestFailed
    | FailSlot
    | SlotRequestTimedOut
    | IdleSlotsDue
)

_RESOURCE_MANAGER = "resource-manager"
"""The id of the ResourceManager among the heartbeat targets. The other targets are TaskManagers."""


class SlotPoolService:
    """The slots of one job and their owners. Used in the turns of its JobMaster only."""

    def __init__(
        self,
        context: ActorContext,
        job_graph: JobGraph,
        session: LeaderSessionId,
        resource_manager: Ref,
        listeners: JobListeners,
    ) -> None:
        self._context = context
        self._job_graph = job_graph
        self._session = session
        self._listeners = listeners
        self._allocator = ExecutionSlotAllocator(
            context.new_id("allocation"),
            job_graph.job_id,
            context.ref,
            batch=job_graph.job_type is JobType.BATCH,
            request_timeout_ms=job_graph.slot_request_timeout_ms,
        )
        self._heartbeats = HeartbeatManager(context, self._request_heartbeat)
        self._resource_manager = ResourceManagerConnection(context, resource_manager, self._introduction)
        self._task_managers: dict[TaskManagerId, Ref] = {}
        self._registrations: dict[TaskManagerId, LeaderSessionId] = {}

    def start(self) -> None:
        self._resource_manager.seek()
        self._heartbeats.start(self._job_graph.heartbeat_interval_ms)
        self._context.timers.start_fixed_delay("idle-slots", slot_pool.IDLE_TIMEOUT_MS, IdleSlotsDue())

    def end(self) -> None:
        self._decide(slot_pool.PoolClosed())

    def disconnect(self) -> None:
        farewell = DisconnectJobMaster(job_id=self._job_graph.job_id)
        self._resource_manager.tell(farewell)
        self._resource_manager.close()
        for task_manager in self._task_managers:
            self._tell(task_manager, farewell)

    @property
    def number_of_slots(self) -> int:
        return sum(len(self._allocator.pool.report(task_manager)) for task_manager in self._task_managers)

    def ask_for_slots(self) -> None:
        """Ask the ResourceManager, if connected, for its slots. It replies with `SlotsExplained`."""
        self._resource_manager.tell(ExplainSlots(reply_to=self._context.ref))

    def place(self, request: RequestSlots | ReturnSlot | ForgetPriorSlots) -> list[SlotAnswer]:
        """Request slots for attempts, or release an attempt's slot. Available slots are assigned at once."""
        return self._decide(request)

    def on_message(self, message: SlotMessage) -> list[SlotAnswer]:
        match message:
            case RegisterTaskManager():
                return self._on_register_task_manager(message)
            case Heartbeat(task_manager_id=task_manager_id):
                self._heartbeats.heartbeat_received(task_manager_id)
                return []
            case HeartbeatDue():
                return self._on_heartbeat_due()
            case DisconnectTaskManager(task_manager_id=task_manager_id, cause=cause):
                return (
                    self._on_task_manager_lost(task_manager_id, cause.message)
                    if task_manager_id in self._task_managers
                    else []
                )
            case HeartbeatRequest():
                self._resource_manager.tell(JobMasterHeartbeat(job_id=self._job_graph.job_id))
                self._heartbeats.heartbeat_received(_RESOURCE_MANAGER)
                return []
            case RegistrationDue():
                self._resource_manager.register()
                return []
            case JobMasterRegistrationSuccess(leader_session_id=session):
                return self._on_registered(session)
            case DisconnectResourceManager():
                return self._lose_resource_manager()
            case SlotRequestFailed(allocation_id=allocation_id) if self._allocator.pool.holds(allocation_id):
                # The JobMaster itself watches this TaskManager and handles its loss once for all tasks.
                return []
            case OfferSlots() | SlotRequestFailed() | FailSlot() | SlotRequestTimedOut() | IdleSlotsDue():
                return self._decide(message)
            case _:
                assert_never(message)

    def on_terminated(self, ref: Ref) -> list[SlotAnswer]:
        if self._resource_manager.is_to(ref):
            return self._lose_resource_manager()
        return [
            event
            for task_manager, task_manager_ref in tuple(self._task_managers.items())
            if task_manager_ref == ref
            for event in self._on_task_manager_lost(task_manager, "its actor has ended")
        ]

    def _introduction(self) -> RegisterJobMaster:
        return RegisterJobMaster(
            job_id=self._job_graph.job_id, leader_session_id=self._session, job_master=self._context.ref
        )

    def _on_registered(self, session: LeaderSessionId) -> list[SlotAnswer]:
        if not self._resource_manager.acknowledge(session):
            return []
        self._heartbeats.monitor(_RESOURCE_MANAGER, self._job_graph.heartbeat_timeout_ms, is_asked=False)
        return self._decide(slot_pool.ResourceManagerConnected())

    def _lose_resource_manager(self) -> list[SlotAnswer]:
        self._heartbeats.unmonitor(_RESOURCE_MANAGER)
        answers = self._decide(slot_pool.ResourceManagerDisconnected())
        self._resource_manager.seek()
        return answers

    def _on_register_task_manager(self, message: RegisterTaskManager) -> list[SlotAnswer]:
        task_manager, ref = message.task_manager_id, message.task_manager
        former_ref = self._task_managers.get(task_manager)
        if is_former(ref, former_ref):
            self._context.reject(f"another {task_manager} has taken its place")
            return []
        answers: list[SlotAnswer] = []
        if former_ref is not None:
            why = (
                "another TaskManager has registered under its name"
                if former_ref != ref
                else ("it lost the JobMaster, and registered again")
            )
            answers = self._on_task_manager_lost(task_manager, why)
        self._task_managers[task_manager] = ref
        self._context.watch(ref)
        registration = LeaderSessionId(self._context.new_id("registration"))
        self._registrations[task_manager] = registration
        self._context.accept_session(registration)
        answers += self._decide(message)
        timeout_ms = self._job_graph.heartbeat_timeout_ms
        acknowledged = AcknowledgeRegistration(
            leader_session_id=self._session,
            job_id=self._job_graph.job_id,
            heartbeat_interval_ms=self._job_graph.heartbeat_interval_ms,
            heartbeat_timeout_ms=timeout_ms,
            registration_session=registration,
        )
        self._tell(task_manager, acknowledged)
        self._heartbeats.monitor(task_manager, timeout_ms, is_asked=True)
        return answers

    def _on_task_manager_lost(self, task_manager: TaskManagerId, reason: str) -> list[SlotAnswer]:
        self._context.unwatch(self._task_managers.pop(task_manager))
        self._context.revoke_session(self._registrations.pop(task_manager))
        self._heartbeats.unmonitor(task_manager)
        event = TaskManagerLost(
            job_id=self._job_graph.job_id,
            task_manager=task_manager,
            reason=reason,
            timestamp_ms=self._context.now(),
        )
        if self._allocator.pool.report(task_manager):
            self._listeners.tell(event)
        return self._decide(event)

    def _request_heartbeat(self, target: str) -> None:
        task_manager = TaskManagerId(target)
        allocations = tuple(self._allocator.pool.report(task_manager).values())
        self._tell(task_manager, HeartbeatRequest(origin=self._context.ref, allocations=allocations))

    def _on_heartbeat_due(self) -> list[SlotAnswer]:
        answers: list[SlotAnswer] = []
        for timed_out in self._heartbeats.on_heartbeat_due():
            if timed_out.target == _RESOURCE_MANAGER:
                answers += self._lose_resource_manager()
            else:
                # The TaskManager may be alive. The notification ends its tasks before its own heartbeat timeout.
                answers += self._disconnect(
                    TaskManagerId(timed_out.target), f"it sent no heartbeat for {timed_out.silent_ms} ms"
                )
        return answers

    def _disconnect(self, task_manager: TaskManagerId, reason: str) -> list[SlotAnswer]:
        self._tell(task_manager, DisconnectJobMaster(job_id=self._job_graph.job_id))
        return self._on_task_manager_lost(task_manager, reason)

    def _decide(self, event: AllocatorEvent) -> list[SlotAnswer]:
        effects = self._allocator.handle(event, self._context.now())
        return [answer for effect in effects for answer in self._perform(effect)]

    def _perform(self, effect: AllocatorEffect) -> list[SlotAnswer]:
        match effect:
            case SlotAllocated() | SlotAllocationFailed() | SlotsLost():
                return [effect]
            case Tell(to=to, message=message):
                self._tell(to, message)
            case StartTimer() | CancelTimer():
                set_timer(self._context, effect)
            case slot_pool.ReleaseEmptyTaskManager(task_manager=task_manager, reason=reason):
                return self._disconnect(task_manager, reason)
            case Ignore():
                pass
            case _:
                assert_never(effect)
        return []

    def _tell(self, to: slot_pool.PoolAddress, message: Message) -> None:
        if to is Role.RESOURCE_MANAGER:
            self._resource_manager.tell(message)
        else:
            Gateway(self._task_managers[to], self._session).tell(message)
