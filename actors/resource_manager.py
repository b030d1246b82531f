"""The ResourceManager: starts TaskManagers, knows their slots, and gives the slots to the JobMasters that ask.

It holds the refs and the sessions; which slot goes to whom and how many TaskManagers there are to be is decided by the
`SlotManager`, who is silent for too long by the `HeartbeatMonitor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

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
from flykka.actors.scheduling.slot_manager import SlotManager
from flykka.actors.scheduling.slot_manager_events import (
    AcceptTaskManager,
    AllocationConfirmed,
    AllocationRefused,
    FailAllocation,
    GiveSlot,
    JobGone,
    RefuseTaskManager,
    ResourceManagerStarted,
    SlotFreed,
    SlotManagerEffect,
    SlotManagerEvent,
    SlotRequestCancelled,
    SlotRequested,
    SlotsReported,
    StartTaskManager,
    TaskManagerGone,
    TaskManagerRegistered,
)
from flykka.messages.heartbeat import Heartbeat, HeartbeatDue, HeartbeatRequest
from flykka.messages.ids import JobId, LeaderSessionId, TaskManagerId
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    JobMasterRegistrationSuccess,
    RefuseRegistration,
    RegisterJobMaster,
    RegisterTaskManager,
    SlotReport,
    StartTaskManagerDue,
)
from flykka.messages.slots import (
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    CancelSlotRequest,
    RequestSlot,
    SlotAvailable,
    SlotRequestFailed,
)
from flykka.runtime.actor import Actor
from flykka.runtime.errors import SpawnRefusedError
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated

TaskManagerProps = Callable[[TaskManagerId, Ref], Props]
"""How a TaskManager of this id is made; the ref is the ResourceManager's, at which it is to register."""


class ResourceManager(Actor):
    """One per system, `/user/resource-manager`; the TaskManagers are its siblings, so that they outlive it."""

    def __init__(
        self,
        task_managers: int,
        task_manager_props: TaskManagerProps,
        *,
        heartbeat_interval_ms: int,
        heartbeat_timeout_ms: int,
    ) -> None:
        self._task_manager_props = task_manager_props
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._heartbeat_timeout_ms = heartbeat_timeout_ms
        self._slots = SlotManager(task_managers=task_managers)
        self._heartbeats = HeartbeatMonitor(asks=True)
        self._task_managers: dict[TaskManagerId, Ref] = {}
        self._ids: dict[Ref, TaskManagerId] = {}
        self._job_masters: dict[JobId, Gateway] = {}

    def pre_start(self) -> None:
        """Begin a session and start the TaskManagers."""
        self._session = LeaderSessionId(self.context.new_id("resource-manager-session"))
        self.context.accept_session(self._session)
        self.context.timers.start_fixed_delay("heartbeat", self._heartbeat_interval_ms, HeartbeatDue())
        self._decide(ResourceManagerStarted())

    def post_restart(self, cause: BaseException | None) -> None:
        """What the failed instance knew is lost, and nobody would tell this one: end, which the JobMasters see."""
        self.context.stop()

    def handle_message(self, message: Message) -> None:
        """Translate what is said into what the machines understand."""
        match message:
            case RegisterTaskManager():
                self._on_register_task_manager(message)
            case Heartbeat(task_manager_id=task_manager, slot_report=report):
                self._watch_over(HeartbeatReceived(target=task_manager))
                if report is not None:
                    self._decide(SlotsReported(task_manager=task_manager, report=report))
            case HeartbeatDue():
                self._watch_over(HeartbeatTick())
            case StartTaskManagerDue(task_manager_id=task_manager):
                self._start(task_manager)
            case RegisterJobMaster() | DisconnectJobMaster():
                self._on_job_master(message)
            case Terminated(ref=ref):
                self._on_terminated(ref)
            case _:
                self._on_slot_message(message)

    # TaskManagers

    def _start(self, task_manager: TaskManagerId) -> None:
        try:
            ref = self.context.spawn_top_level(self._task_manager_props(task_manager, self.context.ref), task_manager)
        except SpawnRefusedError:
            return  # The cluster ends before it has come up, as when its first job is refused.
        self._know(task_manager, ref)

    def _know(self, task_manager: TaskManagerId, ref: Ref) -> None:
        self._task_managers[task_manager] = ref
        self._ids[ref] = task_manager
        self.context.watch(ref)

    def _on_register_task_manager(self, message: RegisterTaskManager) -> None:
        task_manager = message.task_manager_id
        if message.task_manager not in self._ids:
            self._know(task_manager, message.task_manager)
        self._decide(
            TaskManagerRegistered(task_manager=task_manager, report=message.slot_report or SlotReport(slots=()))
        )

    def _lose(self, task_manager: TaskManagerId, reason: str) -> None:
        self._forget(task_manager)
        self._watch_over(UnmonitorTarget(target=task_manager))
        self._decide(TaskManagerGone(task_manager=task_manager, reason=reason))

    def _forget(self, task_manager: TaskManagerId) -> None:
        ref = self._task_managers.pop(task_manager)
        del self._ids[ref]
        self.context.unwatch(ref)

    def _on_terminated(self, ref: Ref) -> None:
        task_manager = self._ids.get(ref)
        if task_manager is not None:
            self._lose(task_manager, f"{task_manager} has ended")
            return
        for job_id in [job_id for job_id, gateway in self._job_masters.items() if gateway.ref == ref]:
            self._forget_job(job_id)

    # JobMasters

    def _on_job_master(self, message: RegisterJobMaster | DisconnectJobMaster) -> None:
        match message:
            case RegisterJobMaster(job_id=job_id, leader_session_id=session, job_master=job_master):
                self._job_masters[job_id] = Gateway(job_master, session)
                self.context.watch(job_master)
                self._job_masters[job_id].tell(JobMasterRegistrationSuccess(leader_session_id=self._session))
            case DisconnectJobMaster(job_id=job_id) if job_id in self._job_masters:
                self.context.unwatch(self._job_masters[job_id].ref)
                self._forget_job(job_id)
            case DisconnectJobMaster():
                self.context.unhandled(message)
            case _:
                assert_never(message)

    def _forget_job(self, job_id: JobId) -> None:
        del self._job_masters[job_id]
        self._decide(JobGone(job_id=job_id))

    # Slots

    def _on_slot_message(self, message: Message) -> None:
        match message:
            case RequestSlot(job_id=job_id, allocation_id=allocation_id) if job_id in self._job_masters:
                self._decide(SlotRequested(job_id=job_id, allocation_id=allocation_id))
            case RequestSlot(job_id=job_id, allocation_id=allocation_id, job_master=job_master):
                reason = f"the JobMaster of {job_id} is not registered"
                job_master.tell(SlotRequestFailed(allocation_id=allocation_id, reason=reason))
            case CancelSlotRequest(allocation_id=allocation_id):
                self._decide(SlotRequestCancelled(allocation_id=allocation_id))
            case AllocateSlotConfirmed(slot_id=slot, job_id=job_id, allocation_id=allocation_id):
                self._decide(AllocationConfirmed(slot_id=slot, job_id=job_id, allocation_id=allocation_id))
            case AllocateSlotRefused(slot_id=slot, allocation_id=allocation_id, occupied_by=holder):
                self._decide(AllocationRefused(slot_id=slot, allocation_id=allocation_id, occupied_by=holder))
            case SlotAvailable(slot_id=slot, allocation_id=allocation_id):
                self._decide(SlotFreed(slot_id=slot, allocation_id=allocation_id))
            case _:
                self.context.unhandled(message)

    # What the machines decide

    def _decide(self, event: SlotManagerEvent) -> None:
        for effect in self._slots.handle(event, self.context.now()):
            self._perform(effect)

    def _watch_over(self, event: HeartbeatEvent) -> None:
        for effect in self._heartbeats.handle(event, self.context.now()):
            match effect:
                case SendHeartbeatRequest(target=target):
                    self._to_task_manager(TaskManagerId(target), HeartbeatRequest(origin=self.context.ref))
                case TargetTimedOut(target=target, silent_ms=silent_ms):
                    # It may only be stuck: end it, so that nothing of it works on beside its successor.
                    self.context.stop(self._task_managers[TaskManagerId(target)])
                    self._lose(TaskManagerId(target), f"{target} was silent for {silent_ms} ms")
                case Ignore():
                    pass
                case _:
                    assert_never(effect)

    def _perform(self, effect: SlotManagerEffect) -> None:
        match effect:
            case StartTaskManager(task_manager=task_manager, delay_ms=0):
                self._start(task_manager)
            case StartTaskManager(task_manager=task_manager, delay_ms=delay_ms):
                due = StartTaskManagerDue(task_manager_id=task_manager)
                self.context.timers.start_once(f"start-{task_manager}", delay_ms, due)
            case AcceptTaskManager(task_manager=task_manager):
                self._acknowledge(task_manager)
            case RefuseTaskManager(task_manager=task_manager, reason=reason):
                self._task_managers[task_manager].tell(RefuseRegistration(reason=reason))
                self._forget(task_manager)
            case GiveSlot(task_manager=task_manager, slot_id=slot, job_id=job_id, allocation_id=allocation_id):
                job_master = self._job_masters[job_id]
                request = AllocateSlot(
                    slot_id=slot,
                    job_id=job_id,
                    allocation_id=allocation_id,
                    job_master=job_master.ref,
                    job_leader_session_id=job_master.leader_session_id,
                )
                self._to_task_manager(task_manager, request)
            case FailAllocation(job_id=job_id, allocation_id=allocation_id, reason=reason):
                if job_id in self._job_masters:
                    failed = SlotRequestFailed(allocation_id=allocation_id, reason=reason)
                    self._job_masters[job_id].tell(failed)
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _acknowledge(self, task_manager: TaskManagerId) -> None:
        # Told plainly: only by this message does the TaskManager learn of the session.
        self._task_managers[task_manager].tell(
            AcknowledgeRegistration(
                leader_session_id=self._session,
                heartbeat_interval_ms=self._heartbeat_interval_ms,
                heartbeat_timeout_ms=self._heartbeat_timeout_ms,
            )
        )
        self._watch_over(MonitorTarget(target=task_manager, timeout_ms=self._heartbeat_timeout_ms))

    def _to_task_manager(self, task_manager: TaskManagerId, message: Message) -> None:
        Gateway(self._task_managers[task_manager], self._session).tell(message)
