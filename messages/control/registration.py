"""Registration of TaskManagers and JobMasters at the ResourceManager, of TaskManagers at a JobMaster, and heartbeats.

Heartbeats overtake all other messages in the mailboxes of these actors, so that a busy actor does not count as dead.
"""

from __future__ import annotations

from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, JobId, LeaderSessionId, SlotId, TaskManagerId
from flykka.messages.wire.message import ControlMessage, Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("registration.slot_status")
class SlotStatus(Value):
    """A slot as its TaskManager knows it, and its size. Without an allocation the slot is free.

    A dynamic slot was created with the size of a request, and is removed when it is free.
    """

    slot_id: SlotId
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    resources: ResourceSpec = ResourceSpec()
    is_dynamic: bool = False


@value("registration.slot_report")
class SlotReport(Value):
    """All slots of a TaskManager, which is the authority on them.

    `total` are the resources that the TaskManager has declared, if any. Unused resources can become slots of other
    sizes.
    """

    slots: tuple[SlotStatus, ...]
    total: ResourceSpec = ResourceSpec()


@message("registration.task_manager")
class RegisterTaskManager(Message):
    """TaskManager -> ResourceManager, and -> JobMaster: register the sender.

    Only the ResourceManager gets the slot report, and the memory for in-flight batches if it is bounded.
    """

    task_manager_id: TaskManagerId
    task_manager: Ref
    slot_report: SlotReport | None = None
    network_memory_bytes: int = 0


@message("registration.acknowledge")
class AcknowledgeRegistration(ControlMessage):
    """ResourceManager or JobMaster -> TaskManager: registered; the sender uses this session. Intervals are in ms.

    While the registration lasts, the TaskManager sends under the sender's session, by default the leader's session.
    """

    leader_session_id: LeaderSessionId
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    job_id: JobId | None = None
    registration_session: LeaderSessionId | None = None


@message("registration.refuse")
class RefuseRegistration(Message):
    """ResourceManager or JobMaster -> TaskManager: not registered, for this reason."""

    reason: str


@message("registration.job_master")
class RegisterJobMaster(Message):
    """JobMaster -> ResourceManager: the sender leads this job and will request slots."""

    job_id: JobId
    leader_session_id: LeaderSessionId
    job_master: Ref


@message("registration.job_master_success")
class JobMasterRegistrationSuccess(ControlMessage):
    """ResourceManager -> JobMaster: registered; both actors send under this session."""

    leader_session_id: LeaderSessionId


@message("registration.disconnect_job_master")
class DisconnectJobMaster(Message):
    """JobMaster -> ResourceManager and TaskManagers: the job has ended, so remove the sender and free its slots."""

    job_id: JobId


@message("registration.disconnect_resource_manager")
class DisconnectResourceManager(Message):
    """ResourceManager -> JobMaster: the receiver's heartbeats timed out. It must register again if it leads."""

    job_id: JobId


@message("registration.disconnect_task_manager")
class DisconnectTaskManager(Message):
    """TaskManager -> ResourceManager and JobMasters: the sender disconnects for this cause. Its tasks and slots are
    lost.

    With `will_return` it only ends its connection to the receiver, whose heartbeats timed out, and registers again.
    """

    task_manager_id: TaskManagerId
    cause: SerializedThrowable
    will_return: bool = False


@message("registration.resource_manager_leader_address")
class ResourceManagerLeaderAddress(Message):
    """ResourceManager -> TaskManagers that started before it: the sender now leads, so register there."""

    resource_manager: Ref


@message("registration.due")
class RegistrationDue(Message):
    """TaskManager's or JobMaster's timer -> itself: no ResourceManager has acknowledged; register again."""


@message("registration.ask_for_release")
class AskForRelease(Message):
    """ResourceManager -> TaskManager: the receiver is idle; can it be released (canBeReleased of Flink)?"""

    idle_period: int


@message("registration.release_answer")
class ReleaseAnswer(Message):
    """TaskManager -> ResourceManager: the sender can be released, or holds results that are still being read."""

    task_manager_id: TaskManagerId
    idle_period: int
    can_be_released: bool


@message("registration.release_task_manager")
class ReleaseTaskManager(Message):
    """ResourceManager -> TaskManager: the receiver is no longer needed, and ends when its tasks have ended."""


@message("registration.start_up_period_elapsed")
class StartUpPeriodElapsed(Message):
    """ResourceManager's timer -> itself: the time for TaskManagers to register has ended."""


@message("registration.start_task_manager_due")
class StartTaskManagerDue(Message):
    """ResourceManager's timer -> itself: start this TaskManager after its delay."""

    task_manager_id: TaskManagerId


@message("heartbeat.request")
class HeartbeatRequest(ControlMessage):
    """ResourceManager -> TaskManager and JobMaster, JobMaster -> TaskManager: send a heartbeat.

    A JobMaster names the allocations that it believes to have at the TaskManager (Flink's AllocatedSlotReport).
    """

    origin: Ref
    allocations: tuple[AllocationId, ...] = ()


@message("heartbeat.response")
class Heartbeat(ControlMessage):
    """TaskManager -> ResourceManager or JobMaster: a heartbeat, with the state of the slots."""

    task_manager_id: TaskManagerId
    slot_report: SlotReport | None = None


@message("heartbeat.job_master")
class JobMasterHeartbeat(ControlMessage):
    """JobMaster -> ResourceManager: a heartbeat."""

    job_id: JobId


@message("heartbeat.due")
class HeartbeatDue(ControlMessage):
    """heartbeat timer -> its ResourceManager, JobMaster or TaskManager: another interval has passed."""
