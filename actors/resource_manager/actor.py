"""The ResourceManager: starts TaskManagers, tracks their slots, and assigns slots to JobMasters on request.

The actor holds the refs and sessions; the `SlotManager` decides about slots and the number of TaskManagers. Every
registration has its own session that ends with it, so that messages of a target that was given up or replaced are
rejected.

Its state can be rebuilt. When it ends, the ClusterEntrypoint starts another ResourceManager, which looks for running
TaskManagers. These register with a report of their slots, and JobMasters repeat their pending requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from flykka.actors.heartbeat_manager import HeartbeatManager
from flykka.actors.machines.effects import Ignore, JobMasterOf, Tell
from flykka.actors.machines.slots import slot_manager
from flykka.actors.machines.slots.slot_table import JobDisconnected
from flykka.actors.machines.slots.task_manager_tracker import NAME, StartTaskManager, WorkerCounts
from flykka.messages.control import registration, slots
from flykka.messages.monitoring.explanation import ExplainSlots, SlotsExplained, TaskManagerInfo
from flykka.messages.wire.ids import JobId, LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref, is_former
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import SpawnRefusedError
from flykka.runtime.leader_session import Gateway
from flykka.runtime.mailbox.message_queue import ControlAwareMailbox
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated

TaskManagerProps = Callable[[TaskManagerId, Ref], Props]
"""A function that creates the props of a TaskManager, which registers at the ResourceManager of the given ref."""


SlotMessage = (
    slots.CancelSlotRequest
    | slots.AllocateSlotConfirmed
    | slots.AllocateSlotRefused
    | slots.SlotAvailable
    | registration.ReleaseAnswer
    | registration.StartUpPeriodElapsed
)


@trace_tag("actor.resource_manager")
class ResourceManager(Actor):
    """The actor `/user/resource-manager`, one per system. The TaskManagers are its siblings and outlive it."""

    mailbox = ControlAwareMailbox()

    def __init__(
        self,
        workers: WorkerCounts,
        task_manager_props: TaskManagerProps,
        *,
        heartbeat_interval_ms: int,
        heartbeat_timeout_ms: int,
        slot_request_timeout_ms: int = slot_manager.REQUEST_TIMEOUT_MS,
    ) -> None:
        self._task_manager_props = task_manager_props
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._heartbeat_timeout_ms = heartbeat_timeout_ms
        self._slots = slot_manager.SlotManager(workers, request_timeout_ms=slot_request_timeout_ms)
        self._task_managers: dict[TaskManagerId, Ref] = {}
        self._ids: dict[Ref, TaskManagerId] = {}
        self._job_masters: dict[JobId, Gateway] = {}

    def pre_start(self) -> None:
        self._registrations = Registrations(self.context)
        self._task_manager_heartbeats = HeartbeatManager(self.context, self._request_task_manager_heartbeat)
        self._job_master_heartbeats = HeartbeatManager(self.context, self._request_job_master_heartbeat)
        self._task_manager_heartbeats.start(self._heartbeat_interval_ms)
        self._job_master_heartbeats.ticks_begin(self._heartbeat_interval_ms)
        self.context.timers.start_once("start-up", self._heartbeat_timeout_ms, registration.StartUpPeriodElapsed())
        self._decide(slot_manager.ResourceManagerStarted(task_managers=self._survivors()))

    def post_restart(self, cause: BaseException | None) -> None:
        """Stop, so that a new actor is started: the failed instance's state is lost and would not be reported again."""
        self.context.stop()

    def handle_message(self, message: Message) -> None:
        match message:
            case registration.RegisterTaskManager():
                self._on_register_task_manager(message)
            case registration.Heartbeat(task_manager_id=task_manager):
                self._task_manager_heartbeats.heartbeat_received(task_manager)
                self._decide(message)
            case registration.JobMasterHeartbeat(job_id=job_id):
                self._job_master_heartbeats.heartbeat_received(job_id)
            case registration.HeartbeatDue():
                self._on_heartbeat_due()
                self._decide(message)
            case registration.DisconnectTaskManager(task_manager_id=task_manager, cause=cause) if (
                task_manager in self._task_managers
            ):
                self._on_lost(task_manager, cause.message, is_superseded=message.will_return)
            case registration.StartTaskManagerDue(task_manager_id=task_manager):
                self._start(task_manager)
            case registration.RegisterJobMaster() | registration.DisconnectJobMaster():
                self._on_job_master(message)
            case ExplainSlots(reply_to=reply_to):
                reply_to.tell(self.explain(self.context.now()))
            case Terminated(ref=ref):
                self._on_terminated(ref)
            case slots.RequestSlot(job_id=job_id) if job_id in self._job_masters:
                self._decide(message)
            case slots.RequestSlot(job_id=job_id, allocation_id=allocation_id, job_master=job_master):
                reason = f"the JobMaster of {job_id} is not registered"
                job_master.tell(slots.SlotRequestFailed(allocation_id=allocation_id, reason=reason))
            case _ if isinstance(message, SlotMessage):
                self._decide(message)
            case _:
                self.context.unhandled(message)

    def explain(self, now: int) -> SlotsExplained:
        usages = {each: self._slots.usage(each) for each in self._slots.task_managers}
        return SlotsExplained(
            now_ms=now,
            task_managers=self._slots.task_managers,
            slots=sum(usage.slots for usage in usages.values()),
            free=sum(usage.free for usage in usages.values()),
            pending_requests=len(self._slots.waiting_requests),
            could_start=self._slots.task_manager_tracker.startable_slots,
            by_task_manager=tuple(
                TaskManagerInfo(
                    task_manager=task_manager,
                    slots=usage.slots,
                    free=usage.free,
                    total=usage.total,
                    remaining=usage.remaining,
                    network_memory_bytes=usage.network_memory_bytes,
                )
                for task_manager, usage in usages.items()
            ),
        )

    def _survivors(self) -> tuple[TaskManagerId, ...]:
        """Ask the TaskManagers of an earlier ResourceManager to register here, and return their ids."""
        refs = self.context.actor_selection(f"../{NAME}*").resolve()
        for ref in refs:
            self._register(TaskManagerId(ref.path.rpartition("/")[2]), ref)
            ref.tell(registration.ResourceManagerLeaderAddress(resource_manager=self.context.ref))
        return tuple(self._ids.values())

    def _start(self, task_manager: TaskManagerId) -> None:
        try:
            ref = self.context.spawn_top_level(self._task_manager_props(task_manager, self.context.ref), task_manager)
        except SpawnRefusedError:
            return  # The cluster is shut down before it was complete, for example because its first job is refused.
        self._register(task_manager, ref)

    def _register(self, task_manager: TaskManagerId, ref: Ref) -> None:
        self._task_managers[task_manager] = ref
        self._ids[ref] = task_manager
        self.context.watch(ref)
        # A TaskManager that never registers counts as dead.
        self._task_manager_heartbeats.monitor(task_manager, self._heartbeat_timeout_ms, is_asked=False)

    def _on_register_task_manager(self, message: registration.RegisterTaskManager) -> None:
        task_manager = message.task_manager_id
        if is_former(message.task_manager, self._task_managers.get(task_manager)):
            self.context.reject(f"another {task_manager} has taken its place")
            return
        if message.task_manager not in self._ids:
            if task_manager in self._task_managers:
                self._on_lost(task_manager, f"another {task_manager} has taken its place", is_superseded=True)
            self._register(task_manager, message.task_manager)
        self._decide(message)

    def _on_lost(self, task_manager: TaskManagerId, reason: str, *, is_superseded: bool = False) -> None:
        instance = self._task_managers[task_manager].incarnation
        self._unregister(task_manager)
        self._decide(
            slot_manager.TaskManagerGone(
                task_manager=task_manager, reason=reason, instance=instance, is_superseded=is_superseded
            )
        )

    def _unregister(self, task_manager: TaskManagerId) -> None:
        ref = self._task_managers.pop(task_manager)
        del self._ids[ref]
        self._registrations.close_session(ref)
        self._task_manager_heartbeats.unmonitor(task_manager)

    def _on_terminated(self, ref: Ref) -> None:
        task_manager = self._ids.get(ref)
        if task_manager is not None:
            self._on_lost(task_manager, f"{task_manager} has ended")
            return
        for job_id in [job_id for job_id, gateway in self._job_masters.items() if gateway.ref == ref]:
            self._forget_job(job_id)

    def _on_job_master(self, message: registration.RegisterJobMaster | registration.DisconnectJobMaster) -> None:
        match message:
            case registration.RegisterJobMaster():
                self._on_register_job_master(message)
            case registration.DisconnectJobMaster(job_id=job_id) if job_id in self._job_masters:
                self._forget_job(job_id)
            case registration.DisconnectJobMaster():
                self.context.unhandled(message)
            case _:
                assert_never(message)

    def _on_register_job_master(self, message: registration.RegisterJobMaster) -> None:
        job_id, job_master = message.job_id, message.job_master
        gateway = self._job_masters.get(job_id)
        if gateway is not None and is_former(job_master, gateway.ref):
            self.context.reject(f"another JobMaster leads {job_id}")
            return
        if gateway is not None and gateway.ref != job_master:
            self._forget_job(job_id)
        if job_id not in self._job_masters:
            self._job_masters[job_id] = Gateway(job_master, message.leader_session_id)
            self.context.watch(job_master)
        was_known = job_master in self._registrations
        session = self._registrations.open_session(job_master)
        self._job_masters[job_id].tell(registration.JobMasterRegistrationSuccess(leader_session_id=session))
        if not was_known:
            self._job_master_heartbeats.monitor(job_id, self._heartbeat_timeout_ms, is_asked=True)

    def _forget_job(self, job_id: JobId) -> None:
        self._registrations.close_session(self._job_masters.pop(job_id).ref)
        self._job_master_heartbeats.unmonitor(job_id)
        self._decide(JobDisconnected(job_id=job_id))

    def _request_task_manager_heartbeat(self, task_manager: str) -> None:
        self._tell(TaskManagerId(task_manager), registration.HeartbeatRequest(origin=self.context.ref))

    def _request_job_master_heartbeat(self, job_id: str) -> None:
        job_master = self._job_masters[JobId(job_id)].ref
        self._registrations.tell(job_master, registration.HeartbeatRequest(origin=self.context.ref))

    def _on_heartbeat_due(self) -> None:
        for timed_out in self._task_manager_heartbeats.on_heartbeat_due():
            task_manager = TaskManagerId(timed_out.target)
            # The TaskManager may only be slow. It is stopped, so that it does not work in parallel with its
            # successor.
            self.context.stop(self._task_managers[task_manager])
            self._on_lost(task_manager, f"{task_manager} sent no heartbeat for {timed_out.silent_ms} ms")
        for timed_out in self._job_master_heartbeats.on_heartbeat_due():
            # The JobMaster may only be slow. It is notified that it has to register again.
            job_id = JobId(timed_out.target)
            self._registrations.tell(
                self._job_masters[job_id].ref, registration.DisconnectResourceManager(job_id=job_id)
            )
            self._forget_job(job_id)

    def _decide(self, event: slot_manager.SlotManagerEvent) -> None:
        for effect in self._slots.handle(event, self.context.now()):
            self._perform(effect)

    def _perform(self, effect: slot_manager.SlotManagerEffect) -> None:
        match effect:
            case StartTaskManager(task_manager=task_manager, delay_ms=0):
                self._start(task_manager)
            case StartTaskManager(task_manager=task_manager, delay_ms=delay_ms):
                due = registration.StartTaskManagerDue(task_manager_id=task_manager)
                self.context.timers.start_once(f"start-{task_manager}", delay_ms, due)
            case slot_manager.AcceptTaskManager(task_manager=task_manager):
                self._acknowledge(task_manager)
            case slot_manager.ForgetTaskManager(task_manager=task_manager):
                self._unregister(task_manager)
            case slot_manager.AssignSlot(task_manager=task_manager, job_id=job_id):
                job_master = self._job_masters[job_id]
                request = slots.AllocateSlot(
                    slot_id=effect.slot_id,
                    job_id=job_id,
                    allocation_id=effect.allocation_id,
                    job_master=job_master.ref,
                    job_leader_session_id=job_master.leader_session_id,
                    cut=effect.cut,
                )
                self._tell(task_manager, request)
            case Tell(to=to, message=message):
                self._tell(to, message)
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _tell(self, to: TaskManagerId | JobMasterOf, message: Message) -> None:
        if not isinstance(to, JobMasterOf):
            self._registrations.tell(self._task_managers[to], message)
        elif to.job_id in self._job_masters:
            self._job_masters[to.job_id].tell(message)

    def _acknowledge(self, task_manager: TaskManagerId) -> None:
        ref = self._task_managers[task_manager]
        was_known = ref in self._registrations
        # The message has no session, because it introduces the session.
        ref.tell(
            registration.AcknowledgeRegistration(
                leader_session_id=self._registrations.open_session(ref),
                heartbeat_interval_ms=self._heartbeat_interval_ms,
                heartbeat_timeout_ms=self._heartbeat_timeout_ms,
            )
        )
        if not was_known:
            # Only a reply proves that messages arrive: a TaskManager that keeps registering may receive nothing.
            self._task_manager_heartbeats.monitor(task_manager, self._heartbeat_timeout_ms, is_asked=True)


class Registrations:
    """The registrations at a ResourceManager, each with its own leader session.

    Messages under an ended session are dead letters, so that late messages of a target that was given up or replaced
    change nothing. Used in the turns of one actor only.
    """

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self._sessions: dict[Ref, LeaderSessionId] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._sessions

    def open_session(self, ref: Ref) -> LeaderSessionId:
        session = self._sessions.get(ref)
        if session is None:
            session = self._sessions[ref] = LeaderSessionId(self._context.new_id("registration"))
            self._context.accept_session(session)
        return session

    def close_session(self, ref: Ref) -> None:
        self._context.unwatch(ref)
        session = self._sessions.pop(ref, None)
        if session is not None:
            self._context.revoke_session(session)

    def tell(self, ref: Ref, message: Message) -> None:
        """Send a message under the actor's session. A refused actor has no session."""
        session = self._sessions.get(ref)
        (ref if session is None else Gateway(ref, session)).tell(message)
