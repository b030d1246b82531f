"""Signs of life, both ways: the ResourceManager asks TaskManagers and JobMasters, a JobMaster its TaskManagers.

Who is busy is not dead: these messages overtake all others in the mailboxes of these three.
"""

from __future__ import annotations

from flykka.messages.control.registration import SlotReport
from flykka.messages.wire.ids import AllocationId, JobId, TaskManagerId
from flykka.messages.wire.markers import ControlMessage
from flykka.messages.wire.message import message
from flykka.messages.wire.ref import Ref


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
