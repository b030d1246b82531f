"""The part of a JobMaster that deals with the ResourceManager and the TaskManagers (Flink's SlotPoolService).

It holds their refs and sessions, lets the SlotPool decide about slots and the HeartbeatMonitor about silence, and
answers with what the ExecutionGraph has to know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from flykka.actors.graph.events import SlotAllocated, SlotAllocationFailed, SlotsLost
from flykka.actors.ignore import Ignore
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
from flykka.actors.scheduling.slot_pool import IDLE_TIMEOUT_MS, SlotPool
from flykka.actors.scheduling.slot_pool_events import (
    AllocationFailed,
    AnswerOffers,
    AskForSlot,
    CancelRequestTimer,
    FreeAtTaskManager,
    IdleCheckDue,
    PoolClosed,
    RequestTimedOut,
    ResourceManagerConnected,
    ResourceManagerDisconnected,
    SlotAssigned,
    SlotLost,
    SlotPoolEffect,
    SlotPoolEvent,
    SlotRequestRejected,
    SlotReturned,
    SlotsOffered,
    SlotWanted,
    StartRequestTimer,
    TaskManagerConnected,
    TaskManagerDisconnected,
    WithdrawRequest,
)
from flykka.actors.scheduling.slot_sharing import AssignedSlot, SlotRequestId
from flykka.messages.failure import SerializedThrowable
from flykka.messages.heartbeat import Heartbeat, HeartbeatDue, HeartbeatRequest
from flykka.messages.ids import AllocationId, LeaderSessionId, TaskManagerId
from flykka.messages.job_control import IdleSlotsDue, SlotRequestTimedOut
from flykka.messages.job_graph import JobGraph
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    JobMasterRegistrationSuccess,
    RegisterJobMaster,
    RegisterTaskManager,
)
from flykka.messages.slots import AcceptSlots, CancelSlotRequest, FreeSlot, OfferSlots, RequestSlot, SlotRequestFailed
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway

SlotEvent = SlotAllocated | SlotAllocationFailed | SlotsLost
SlotMessage = (
    RegisterTaskManager
    | OfferSlots
    | Heartbeat
    | HeartbeatDue
    | JobMasterRegistrationSuccess
    | SlotRequestFailed
    | SlotRequestTimedOut
    | IdleSlotsDue
)
"""What a JobMaster hands to this part of it."""


class SlotPoolService:
    """The slots of one job and those who give them; used in the turns of its JobMaster only."""

    def __init__(
        self, context: ActorContext, job_graph: JobGraph, session: LeaderSessionId, resource_manager: Ref
    ) -> None:
        self._context = context
        self._job_graph = job_graph
        self._session = session
        self._pool = SlotPool()
        self._heartbeats = HeartbeatMonitor(asks=True)
        self._resource_manager: Ref | Gateway = resource_manager
        # Nobody starts another ResourceManager: with it, the hope for slots is gone.
        self._resource_manager_lost: SerializedThrowable | None = None
        self._task_managers: dict[TaskManagerId, Ref] = {}
        self._lost: dict[TaskManagerId, str] = {}

    def start(self) -> None:
        """Register at the ResourceManager, and begin to watch over the TaskManagers."""
        self._resource_manager.tell(
            RegisterJobMaster(
                job_id=self._job_graph.job_id, leader_session_id=self._session, job_master=self._context.ref
            )
        )
        timers = self._context.timers
        timers.start_fixed_delay("heartbeat", self._job_graph.heartbeat_interval_ms, HeartbeatDue())
        timers.start_fixed_delay("idle-slots", IDLE_TIMEOUT_MS, IdleSlotsDue())

    def end(self) -> None:
        """Give every slot back: the job has come to its end."""
        self._decide(PoolClosed())

    def disconnect(self) -> None:
        """Take leave of the ResourceManager and the TaskManagers."""
        farewell = DisconnectJobMaster(job_id=self._job_graph.job_id)
        if self._resource_manager_lost is None:
            self._resource_manager.tell(farewell)
        for task_manager in self._task_managers:
            self._tell(task_manager, farewell)

    # What the ExecutionGraph asks for

    def request(self, request_ids: Iterable[SlotRequestId]) -> list[SlotEvent]:
        """Get a slot for each request; those that are there are given at once. None without a ResourceManager."""
        if self._resource_manager_lost is not None:
            cause = self._resource_manager_lost
            return [SlotAllocationFailed(request_id=request_id, cause=cause) for request_id in request_ids]
        events: list[SlotEvent] = []
        for request_id in request_ids:
            allocation_id = AllocationId(self._context.new_id("allocation"))
            events += self._decide(SlotWanted(request_id=request_id, allocation_id=allocation_id))
        return events

    def give_back(self, request_id: SlotRequestId) -> list[SlotEvent]:
        """The slot of the request, or the wish for it, is no longer needed."""
        return self._decide(SlotReturned(request_id=request_id))

    # What the others say

    def take(self, message: SlotMessage) -> list[SlotEvent]:
        """Handle one message about slots or about who is there."""
        match message:
            case RegisterTaskManager(task_manager_id=task_manager_id, task_manager=task_manager):
                return self._on_register(task_manager_id, task_manager)
            case OfferSlots(task_manager_id=task_manager_id, offers=offers):
                return self._decide(SlotsOffered(task_manager=task_manager_id, offers=offers))
            case Heartbeat(task_manager_id=task_manager_id):
                return self._watch_over(HeartbeatReceived(target=task_manager_id))
            case HeartbeatDue():
                return self._watch_over(HeartbeatTick())
            case JobMasterRegistrationSuccess(leader_session_id=session):
                if isinstance(self._resource_manager, Ref):
                    self._resource_manager = Gateway(self._resource_manager, session)
                return self._decide(ResourceManagerConnected())
            case SlotRequestFailed(allocation_id=allocation_id) if self._pool.holds(allocation_id):
                # Its TaskManager is watched from here as well: a loss is taken note of once, as a whole.
                return []
            case SlotRequestFailed(allocation_id=allocation_id, reason=reason):
                return self._decide(AllocationFailed(allocation_id=allocation_id, reason=reason))
            case SlotRequestTimedOut(request_id=request_id):
                return self._decide(RequestTimedOut(request_id=SlotRequestId(request_id)))
            case IdleSlotsDue():
                return self._decide(IdleCheckDue())
            case _:
                assert_never(message)

    def on_terminated(self, ref: Ref) -> list[SlotEvent]:
        """A watched actor has ended."""
        return [
            event
            for task_manager, known in tuple(self._task_managers.items())
            if known == ref
            for event in self._lose(task_manager, "its actor has ended")
        ]

    def lose_resource_manager(self, path: str) -> SerializedThrowable:
        """The ResourceManager has ended: nothing is asked for any more. Why the job cannot go on."""
        self._decide(ResourceManagerDisconnected())
        self._resource_manager_lost = SerializedThrowable(
            type_name="ResourceManagerLostError",
            message=f"the ResourceManager {path} has ended, and nobody starts another one",
            suppress_restarts=True,
        )
        return self._resource_manager_lost

    def take_losses(self) -> dict[TaskManagerId, str]:
        """The TaskManagers that were lost with slots of the job since this was last asked, and why."""
        lost, self._lost = self._lost, {}
        return lost

    def _on_register(self, task_manager: TaskManagerId, ref: Ref) -> list[SlotEvent]:
        events: list[SlotEvent] = []
        known = self._task_managers.get(task_manager)
        if known is not None and known != ref:
            events = self._lose(task_manager, "another one has taken its name")
        if task_manager not in self._task_managers:
            self._task_managers[task_manager] = ref
            self._context.watch(ref)
            events += self._decide(TaskManagerConnected(task_manager=task_manager))
        self._tell(
            task_manager,
            AcknowledgeRegistration(
                leader_session_id=self._session,
                job_id=self._job_graph.job_id,
                heartbeat_interval_ms=self._job_graph.heartbeat_interval_ms,
                heartbeat_timeout_ms=self._job_graph.heartbeat_timeout_ms,
            ),
        )
        timeout_ms = self._job_graph.heartbeat_timeout_ms
        return events + self._watch_over(MonitorTarget(target=task_manager, timeout_ms=timeout_ms))

    def _lose(self, task_manager: TaskManagerId, reason: str) -> list[SlotEvent]:
        self._context.unwatch(self._task_managers.pop(task_manager))
        if self._pool.slots_of(task_manager):
            self._lost[task_manager] = reason
        events = self._watch_over(UnmonitorTarget(target=task_manager))
        return events + self._decide(TaskManagerDisconnected(task_manager=task_manager, reason=reason))

    # What the machines decide

    def _watch_over(self, event: HeartbeatEvent) -> list[SlotEvent]:
        events: list[SlotEvent] = []
        for effect in self._heartbeats.handle(event, self._context.now()):
            match effect:
                case SendHeartbeatRequest(target=target):
                    self._tell(TaskManagerId(target), HeartbeatRequest(origin=self._context.ref))
                case TargetTimedOut(target=target, silent_ms=silent_ms):
                    # It may hear us all the same: then its tasks end, and not only when it misses us in turn.
                    self._tell(TaskManagerId(target), DisconnectJobMaster(job_id=self._job_graph.job_id))
                    events += self._lose(TaskManagerId(target), f"it was silent for {silent_ms} ms")
                case Ignore():
                    pass
                case _:
                    assert_never(effect)
        return events

    def _decide(self, event: SlotPoolEvent) -> list[SlotEvent]:
        effects = self._pool.handle(event, self._context.now())
        events = [made for effect in effects for made in self._perform(effect)]
        lost = [effect for effect in effects if isinstance(effect, SlotLost)]
        if not lost:
            return events
        # Slots that are lost together are lost for one reason: one failure of the job, not many.
        cause = SerializedThrowable(
            type_name="SlotLostError", message=f"{lost[0].task_manager} is lost: {lost[0].reason}"
        )
        return [*events, SlotsLost(request_ids=tuple(effect.request_id for effect in lost), cause=cause)]

    def _perform(self, effect: SlotPoolEffect) -> list[SlotEvent]:
        match effect:
            case AskForSlot(allocation_id=allocation_id):
                self._resource_manager.tell(
                    RequestSlot(
                        job_id=self._job_graph.job_id, allocation_id=allocation_id, job_master=self._context.ref
                    )
                )
            case WithdrawRequest(allocation_id=allocation_id):
                self._resource_manager.tell(CancelSlotRequest(allocation_id=allocation_id))
            case AnswerOffers(task_manager=task_manager, accepted=accepted):
                self._tell(task_manager, AcceptSlots(job_id=self._job_graph.job_id, accepted=accepted))
            case FreeAtTaskManager(task_manager=task_manager, allocation_id=allocation_id):
                self._tell(task_manager, FreeSlot(allocation_id=allocation_id))
            case StartRequestTimer(request_id=request_id, delay_ms=delay_ms):
                timed_out = SlotRequestTimedOut(request_id=request_id)
                self._context.timers.start_once(f"slot-request/{request_id}", delay_ms, timed_out)
            case CancelRequestTimer(request_id=request_id):
                self._context.timers.cancel(f"slot-request/{request_id}")
            case SlotAssigned(request_id=request_id):
                return [SlotAllocated(request_id=request_id, slot=self._assigned(effect))]
            case SlotRequestRejected(request_id=request_id, reason=reason):
                cause = SerializedThrowable(type_name="NoResourceAvailableError", message=reason)
                return [SlotAllocationFailed(request_id=request_id, cause=cause)]
            case SlotLost() | Ignore():
                pass
            case _:
                assert_never(effect)
        return []

    def _assigned(self, effect: SlotAssigned) -> AssignedSlot:
        return AssignedSlot(
            allocation_id=effect.allocation_id,
            task_manager_id=effect.task_manager,
            task_manager=self._task_managers[effect.task_manager],
        )

    def _tell(self, task_manager: TaskManagerId, message: Message) -> None:
        Gateway(self._task_managers[task_manager], self._session).tell(message)
