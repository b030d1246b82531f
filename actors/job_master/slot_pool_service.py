"""The part of a JobMaster that deals with the ResourceManager and the TaskManagers (Flink's SlotPoolService).

It holds their refs and sessions, lets the SlotPool decide about slots and the HeartbeatMonitor about silence, and
answers with what the ExecutionGraph has to know. A ResourceManager that is lost is looked for until there is one again,
while the job goes on. A TaskManager speaks under a session of its own, which ends when it is lost: what it still says,
or a task of its, comes no further.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.machines.graph.events import SlotAllocated, SlotAllocationFailed, SlotsLost
from flykka.actors.machines.heartbeat import (
    HeartbeatEvent,
    HeartbeatMonitor,
    HeartbeatReceived,
    HeartbeatTick,
    MonitorTarget,
    SendHeartbeatRequest,
    TargetTimedOut,
    UnmonitorTarget,
)
from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.slots.execution_slot_allocator import (
    AllocatorEffect,
    AllocatorEvent,
    AttemptsLost,
    AttemptsPlaced,
    AttemptsRejected,
    ExecutionSlotAllocator,
)
from flykka.actors.machines.slots.slot_pool import IDLE_TIMEOUT_MS
from flykka.actors.machines.slots.slot_pool_events import (
    AllocationFailed,
    AnswerOffers,
    AskForSlot,
    BatchTimeoutCheckDue,
    CancelRequestTimer,
    DismissTaskManager,
    FreeAtTaskManager,
    IdleCheckDue,
    PoolClosed,
    RequestTimedOut,
    ResourceManagerConnected,
    ResourceManagerDisconnected,
    SlotsOffered,
    StartRequestTimer,
    TaskManagerConnected,
    TaskManagerDisconnected,
    WithdrawRequest,
)
from flykka.actors.machines.slots.slot_requests import AssignedSlot, RequestSlots, ReturnSlot, SlotRequestId
from flykka.actors.resource_manager_connection import ResourceManagerConnection
from flykka.messages.control.heartbeat import Heartbeat, HeartbeatDue, HeartbeatRequest, JobMasterHeartbeat
from flykka.messages.control.job_control import IdleSlotsDue, SlotRequestTimedOut
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    DisconnectResourceManager,
    DisconnectTaskManager,
    JobMasterRegistrationSuccess,
    RegisterJobMaster,
    RegisterTaskManager,
    RegistrationDue,
)
from flykka.messages.control.slots import (
    AcceptSlots,
    CancelSlotRequest,
    FailSlot,
    FreeSlot,
    OfferSlots,
    RequestSlot,
    SlotRequestFailed,
)
from flykka.messages.graph.job_graph import JobGraph, JobType
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref, is_former
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway

SlotEvent = SlotAllocated | SlotAllocationFailed | SlotsLost
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
"""Messages that a JobMaster forwards to this part of it."""

_RESOURCE_MANAGER = "resource-manager"
"""The name of the ResourceManager among the targets of the heartbeats; the others are TaskManagers."""


class SlotPoolService:
    """The slots of one job and those who give them; used in the turns of its JobMaster only."""

    def __init__(
        self, context: ActorContext, job_graph: JobGraph, session: LeaderSessionId, resource_manager: Ref
    ) -> None:
        self._context = context
        self._job_graph = job_graph
        self._session = session
        self._allocator = ExecutionSlotAllocator(
            context.new_id("allocation"),
            batch=job_graph.job_type is JobType.BATCH,
            request_timeout_ms=job_graph.slot_request_timeout_ms,
        )
        self._heartbeats = HeartbeatMonitor()
        self._resource_manager = ResourceManagerConnection(context, resource_manager, self._introduction)
        self._task_managers: dict[TaskManagerId, Ref] = {}
        self._registrations: dict[TaskManagerId, LeaderSessionId] = {}
        self._lost: dict[TaskManagerId, str] = {}

    def start(self) -> None:
        """Register at the ResourceManager, and begin to watch over the TaskManagers."""
        self._resource_manager.seek()
        timers = self._context.timers
        timers.start_fixed_delay("heartbeat", self._job_graph.heartbeat_interval_ms, HeartbeatDue())
        timers.start_fixed_delay("idle-slots", IDLE_TIMEOUT_MS, IdleSlotsDue())

    def end(self) -> None:
        """Give every slot back: the job has come to its end."""
        self._decide(PoolClosed())

    def disconnect(self) -> None:
        """Take leave of the ResourceManager and the TaskManagers."""
        farewell = DisconnectJobMaster(job_id=self._job_graph.job_id)
        self._resource_manager.tell(farewell)
        self._resource_manager.close()
        for task_manager in self._task_managers:
            self._tell(task_manager, farewell)

    # What the ExecutionGraph asks for

    def take_wish(self, wish: RequestSlots | ReturnSlot) -> list[SlotEvent]:
        """Get room for attempts, which those that find it at once have at once; or take back what one needs no more."""
        return self._decide(wish)

    # What the others say

    def take(self, message: SlotMessage) -> list[SlotEvent]:
        """Handle one message about slots or about who is there."""
        match message:
            case RegisterTaskManager(task_manager_id=task_manager_id, task_manager=task_manager):
                return self._on_register(task_manager_id, task_manager)
            case OfferSlots(task_manager_id=task_manager_id, offers=offers, offer=offer):
                return self._decide(SlotsOffered(task_manager=task_manager_id, offers=offers, offer=offer))
            case Heartbeat(task_manager_id=task_manager_id):
                return self._watch_over(HeartbeatReceived(target=task_manager_id))
            case HeartbeatDue():
                return self._watch_over(HeartbeatTick())
            case DisconnectTaskManager(task_manager_id=task_manager_id, cause=cause):
                return self._lose(task_manager_id, cause.message) if task_manager_id in self._task_managers else []
            case HeartbeatRequest():
                self._resource_manager.tell(JobMasterHeartbeat(job_id=self._job_graph.job_id))
                return self._watch_over(HeartbeatReceived(target=_RESOURCE_MANAGER))
            case RegistrationDue():
                self._resource_manager.register()
                return []
            case JobMasterRegistrationSuccess(leader_session_id=session):
                return self._on_registered(session)
            case DisconnectResourceManager():
                return self._lose_resource_manager()
            case SlotRequestFailed(allocation_id=allocation_id) if self._allocator.pool.holds(allocation_id):
                # Its TaskManager is watched from here as well: a loss is taken note of once, as a whole.
                return []
            case SlotRequestFailed(allocation_id=allocation_id, reason=reason, is_unfulfillable=unfulfillable):
                failed = AllocationFailed(allocation_id=allocation_id, reason=reason, is_unfulfillable=unfulfillable)
                return self._decide(failed)
            case FailSlot(allocation_id=allocation_id, reason=reason):
                return self._decide(AllocationFailed(allocation_id=allocation_id, reason=reason))
            case SlotRequestTimedOut(request_id=request_id):
                return self._decide(RequestTimedOut(request_id=SlotRequestId(request_id)))
            case IdleSlotsDue():
                return [*self._decide(BatchTimeoutCheckDue()), *self._decide(IdleCheckDue())]
            case _:
                assert_never(message)

    def on_terminated(self, ref: Ref) -> list[SlotEvent]:
        """A watched actor has ended."""
        if self._resource_manager.is_to(ref):
            return self._lose_resource_manager()
        return [
            event
            for task_manager, known in tuple(self._task_managers.items())
            if known == ref
            for event in self._lose(task_manager, "its actor has ended")
        ]

    def take_losses(self) -> dict[TaskManagerId, str]:
        """The TaskManagers that were lost with slots of the job since this was last asked, and why."""
        lost, self._lost = self._lost, {}
        return lost

    # The ResourceManager

    def _introduction(self) -> RegisterJobMaster:
        return RegisterJobMaster(
            job_id=self._job_graph.job_id, leader_session_id=self._session, job_master=self._context.ref
        )

    def _on_registered(self, session: LeaderSessionId) -> list[SlotEvent]:
        if not self._resource_manager.acknowledge(session):
            return []
        events = self._watch_over(
            MonitorTarget(target=_RESOURCE_MANAGER, timeout_ms=self._job_graph.heartbeat_timeout_ms, is_asked=False)
        )
        return events + self._decide(ResourceManagerConnected())

    def _lose_resource_manager(self) -> list[SlotEvent]:
        """It has ended, or does not know the job any more: what is waited for is asked for again at the next one."""
        events = self._watch_over(UnmonitorTarget(target=_RESOURCE_MANAGER))
        events += self._decide(ResourceManagerDisconnected())
        self._resource_manager.seek()
        return events

    # TaskManagers

    def _on_register(self, task_manager: TaskManagerId, ref: Ref) -> list[SlotEvent]:
        events: list[SlotEvent] = []
        known = self._task_managers.get(task_manager)
        if is_former(ref, known):
            self._context.reject(f"another {task_manager} has taken its place")
            return events
        if known is not None:
            why = "another one has taken its name" if known != ref else "it had lost the JobMaster, and came back"
            events = self._lose(task_manager, why)
        self._task_managers[task_manager] = ref
        self._context.watch(ref)
        registration = LeaderSessionId(self._context.new_id("registration"))
        self._registrations[task_manager] = registration
        self._context.accept_session(registration)
        events += self._decide(TaskManagerConnected(task_manager=task_manager))
        self._tell(
            task_manager,
            AcknowledgeRegistration(
                leader_session_id=self._session,
                job_id=self._job_graph.job_id,
                heartbeat_interval_ms=self._job_graph.heartbeat_interval_ms,
                heartbeat_timeout_ms=self._job_graph.heartbeat_timeout_ms,
                registration_session=registration,
            ),
        )
        timeout_ms = self._job_graph.heartbeat_timeout_ms
        watch = MonitorTarget(target=task_manager, timeout_ms=timeout_ms, is_asked=True)
        return events + self._watch_over(watch)

    def _lose(self, task_manager: TaskManagerId, reason: str) -> list[SlotEvent]:
        self._context.unwatch(self._task_managers.pop(task_manager))
        self._context.revoke_session(self._registrations.pop(task_manager))
        if self._allocator.pool.report(task_manager):
            self._lost[task_manager] = reason
        events = self._watch_over(UnmonitorTarget(target=task_manager))
        events += self._decide(TaskManagerDisconnected(task_manager=task_manager, reason=reason))
        # What is lost together is lost for one reason: one failure of the job, not many. Results that were kept there
        # are lost as well, so the job hears of it where nothing ran.
        lost = tuple(attempt for event in events if isinstance(event, SlotsLost) for attempt in event.attempts)
        whole = SlotsLost(attempts=lost, cause=_lost(task_manager, reason), task_manager_id=task_manager)
        return [*(event for event in events if not isinstance(event, SlotsLost)), whole]

    # What the machines decide

    def _watch_over(self, event: HeartbeatEvent) -> list[SlotEvent]:
        events: list[SlotEvent] = []
        for effect in self._heartbeats.handle(event, self._context.now()):
            match effect:
                case SendHeartbeatRequest(target=target):
                    held = tuple(self._allocator.pool.report(TaskManagerId(target)).values())
                    request = HeartbeatRequest(origin=self._context.ref, allocations=held)
                    self._tell(TaskManagerId(target), request)
                case TargetTimedOut(target=target) if target == _RESOURCE_MANAGER:
                    events += self._lose_resource_manager()
                case TargetTimedOut(target=target, silent_ms=silent_ms):
                    # It may hear us all the same: then its tasks end, and not only when it misses us in turn.
                    self._tell(TaskManagerId(target), DisconnectJobMaster(job_id=self._job_graph.job_id))
                    events += self._lose(TaskManagerId(target), f"it was silent for {silent_ms} ms")
                case Ignore():
                    pass
                case _:
                    assert_never(effect)
        return events

    def _decide(self, event: AllocatorEvent) -> list[SlotEvent]:
        effects = self._allocator.handle(event, self._context.now())
        return [made for effect in effects for made in self._perform(effect)]

    def _perform(self, effect: AllocatorEffect) -> list[SlotEvent]:
        match effect:
            case AskForSlot(allocation_id=allocation_id, resources=resources):
                self._resource_manager.tell(
                    RequestSlot(
                        job_id=self._job_graph.job_id,
                        allocation_id=allocation_id,
                        job_master=self._context.ref,
                        resources=resources,
                    )
                )
            case WithdrawRequest(allocation_id=allocation_id):
                self._resource_manager.tell(CancelSlotRequest(allocation_id=allocation_id))
            case AnswerOffers(task_manager=task_manager, accepted=accepted, offer=offer):
                self._tell(task_manager, AcceptSlots(job_id=self._job_graph.job_id, accepted=accepted, offer=offer))
            case FreeAtTaskManager(task_manager=task_manager, allocation_id=allocation_id):
                self._tell(task_manager, FreeSlot(allocation_id=allocation_id))
            case StartRequestTimer(request_id=request_id, delay_ms=delay_ms):
                timed_out = SlotRequestTimedOut(request_id=request_id)
                self._context.timers.start_once(f"slot-request/{request_id}", delay_ms, timed_out)
            case CancelRequestTimer(request_id=request_id):
                self._context.timers.cancel(f"slot-request/{request_id}")
            case AttemptsPlaced(attempts=attempts):
                return [SlotAllocated(attempts=attempts, slot=self._assigned(effect))]
            case AttemptsRejected(attempts=attempts, reason=reason, is_temporary=is_temporary):
                # The second one is final: a restart would wait as long, and for the same.
                name = "SlotAllocationError" if is_temporary else "NoResourceAvailableError"
                cause = SerializedThrowable(type_name=name, message=reason)
                return [SlotAllocationFailed(attempts=attempts, cause=cause)]
            case AttemptsLost(attempts=attempts, task_manager=task_manager, reason=reason):
                return [SlotsLost(attempts=attempts, cause=_lost(task_manager, reason))]
            case DismissTaskManager(task_manager=task_manager, reason=reason):
                self._tell(task_manager, DisconnectJobMaster(job_id=self._job_graph.job_id))
                return self._lose(task_manager, reason)
            case Ignore():
                pass
            case _:
                assert_never(effect)
        return []

    def _assigned(self, effect: AttemptsPlaced) -> AssignedSlot:
        return AssignedSlot(
            allocation_id=effect.allocation_id,
            task_manager_id=effect.task_manager,
            task_manager=self._task_managers[effect.task_manager],
        )

    def _tell(self, task_manager: TaskManagerId, message: Message) -> None:
        Gateway(self._task_managers[task_manager], self._session).tell(message)


def _lost(task_manager: TaskManagerId, reason: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="SlotLostError", message=f"{task_manager} is lost: {reason}")
