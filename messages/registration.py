"""Who knows whom: TaskManagers and JobMasters at the ResourceManager, TaskManagers at a JobMaster."""

from __future__ import annotations

from flykka.messages.ids import AllocationId, JobId, LeaderSessionId, SlotId, TaskManagerId
from flykka.messages.message import Message, Value, message, value
from flykka.messages.ref import Ref


@value("registration.slot_status")
class SlotStatus(Value):
    """One slot as its TaskManager knows it; free where there is no allocation."""

    slot_id: SlotId
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


@value("registration.slot_report")
class SlotReport(Value):
    """All slots of a TaskManager: the truth about them."""

    slots: tuple[SlotStatus, ...]


@message("registration.task_manager")
class RegisterTaskManager(Message):
    """TaskManager -> ResourceManager, and -> JobMaster: here I am. The slot report goes to the ResourceManager."""

    task_manager_id: TaskManagerId
    task_manager: Ref
    slot_report: SlotReport | None = None


@message("registration.acknowledge")
class AcknowledgeRegistration(Message):
    """ResourceManager or JobMaster -> TaskManager: registered; I speak under this session. Intervals in ms."""

    leader_session_id: LeaderSessionId
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    job_id: JobId | None = None


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
class JobMasterRegistrationSuccess(Message):
    """ResourceManager -> JobMaster: registered; I speak under this session."""

    leader_session_id: LeaderSessionId


@message("registration.disconnect_job_master")
class DisconnectJobMaster(Message):
    """JobMaster -> ResourceManager and TaskManagers: the job is over; forget me and free my slots."""

    job_id: JobId


@message("registration.due")
class RegistrationDue(Message):
    """TaskManager's timer -> itself: nobody has acknowledged me yet; register again."""


@message("registration.start_task_manager_due")
class StartTaskManagerDue(Message):
    """ResourceManager's timer -> itself: the pause before this TaskManager is started is over."""

    task_manager_id: TaskManagerId
