"""Registration of TaskManagers and JobMasters at the ResourceManager, of TaskManagers at a JobMaster, and heartbeats.

Who is busy is not dead: heartbeats overtake all other messages in the mailboxes of these three.
"""

from __future__ import annotations

from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, JobId, LeaderSessionId, SlotId, TaskManagerId
from flykka.messages.wire.message import ControlMessage, Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("registration.slot_status")
class SlotStatus(Value):
    """A slot as its TaskManager knows it, and its size; free where there is no allocation.

    One that `is_dynamic` was cut to the size of a request, and is gone when it is free.
    """

    slot_id: SlotId
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    resources: ResourceSpec = ResourceSpec()
    is_dynamic: bool = False


@value("registration.slot_report")
class SlotReport(Value):
    """All slots of a TaskManager: the truth about them.

    Where it has declared its resources, they are `total`: slots of other sizes can be cut of what is not used of them.
    """

    slots: tuple[SlotStatus, ...]
    total: ResourceSpec = ResourceSpec()


@message("registration.task_manager")
class RegisterTaskManager(Message):
    """TaskManager -> ResourceManager, and -> JobMaster: here I am. The slot report goes to the ResourceManager.

    So does the memory for batches on their way, where it is bounded.
    """

    task_manager_id: TaskManagerId
    task_manager: Ref
    slot_report: SlotReport | None = None
    network_memory_bytes: int = 0


@message("registration.acknowledge")
class AcknowledgeRegistration(ControlMessage):
    """ResourceManager or JobMaster -> TaskManager: registered; I speak under this session. Intervals in ms.

    What the TaskManager says is let through under the session of this registration, for as long as it holds; where none
    is named, that is the leader's own.
    """

    leader_session_id: LeaderSessionId
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    job_id: JobId | None = None
    registration_session: LeaderSessionId | None = None


@message("registration.refuse")
class RefuseRegistration(Message):
    """ResourceManager or JobMaster -> TaskManager: not registered, and why."""

    reason: str


@message("registration.job_master")
class RegisterJobMaster(Message):
    """JobMaster -> ResourceManager: I lead this job and will ask for slots."""

    job_id: JobId
    leader_session_id: LeaderSessionId
    job_master: Ref


@message("registration.job_master_success")
class JobMasterRegistrationSuccess(ControlMessage):
    """ResourceManager -> JobMaster: registered; this is the session of the registration, for both of us."""

    leader_session_id: LeaderSessionId


@message("registration.disconnect_job_master")
class DisconnectJobMaster(Message):
    """JobMaster -> ResourceManager and TaskManagers: the job is over; forget me and free my slots."""

    job_id: JobId


@message("registration.disconnect_resource_manager")
class DisconnectResourceManager(Message):
    """ResourceManager -> JobMaster: you were silent for too long; register again where you still lead the job."""

    job_id: JobId


@message("registration.disconnect_task_manager")
class DisconnectTaskManager(Message):
    """TaskManager -> ResourceManager and JobMasters: I give up, and why; what ran here is lost.

    One that `will_return` gives up what binds it to the receiver, which has been silent, and registers again.
    """

    task_manager_id: TaskManagerId
    cause: SerializedThrowable
    will_return: bool = False


@message("registration.resource_manager_leader_address")
class ResourceManagerLeaderAddress(Message):
    """ResourceManager -> TaskManagers that were there before it: I lead from now on; register here."""

    resource_manager: Ref


@message("registration.due")
class RegistrationDue(Message):
    """TaskManager's or JobMaster's timer -> itself: no ResourceManager has acknowledged me yet; register again."""


@message("registration.ask_for_release")
class AskForRelease(Message):
    """ResourceManager -> TaskManager: you are idle; may you be released (canBeReleased of Flink)?"""

    idle_period: int


@message("registration.release_answer")
class ReleaseAnswer(Message):
    """TaskManager -> ResourceManager: nobody needs me, or there are results here that are read still."""

    task_manager_id: TaskManagerId
    idle_period: int
    can_be_released: bool


@message("registration.release_task_manager")
class ReleaseTaskManager(Message):
    """ResourceManager -> TaskManager: nobody needs you any more; end when what runs here has ended."""


@message("registration.start_up_period_elapsed")
class StartUpPeriodElapsed(Message):
    """ResourceManager's timer -> itself: the time to register is over."""


@message("registration.start_task_manager_due")
class StartTaskManagerDue(Message):
    """ResourceManager's timer -> itself: the pause before this TaskManager is started is over."""

    task_manager_id: TaskManagerId


@message("heartbeat.request")
class HeartbeatRequest(ControlMessage):
    """ResourceManager -> TaskManager and JobMaster, JobMaster -> TaskManager: are you there?

    A JobMaster says which allocations it believes to have at the TaskManager (Flink's AllocatedSlotReport).
    """

    origin: Ref
    allocations: tuple[AllocationId, ...] = ()


@message("heartbeat.response")
class Heartbeat(ControlMessage):
    """TaskManager -> ResourceManager or JobMaster: I am, and this is the state of my slots."""

    task_manager_id: TaskManagerId
    slot_report: SlotReport | None = None


@message("heartbeat.job_master")
class JobMasterHeartbeat(ControlMessage):
    """JobMaster -> ResourceManager: I am there."""

    job_id: JobId


@message("heartbeat.due")
class HeartbeatDue(ControlMessage):
    """heartbeat timer -> its ResourceManager, JobMaster or TaskManager: another interval has passed."""
