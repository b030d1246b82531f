"""Signs of life, both ways: ResourceManager and JobMasters ask, TaskManagers answer."""

from __future__ import annotations

from flykka.messages.ids import TaskManagerId
from flykka.messages.message import Message, message
from flykka.messages.ref import Ref
from flykka.messages.registration import SlotReport


@message("heartbeat.request")
class HeartbeatRequest(Message):
    """ResourceManager or JobMaster -> TaskManager: are you there?"""

    origin: Ref


@message("heartbeat.response")
class Heartbeat(Message):
    """TaskManager -> ResourceManager or JobMaster: I am, and this is the state of my slots."""

    task_manager_id: TaskManagerId
    slot_report: SlotReport | None = None


@message("heartbeat.due")
class HeartbeatDue(Message):
    """heartbeat timer -> its ResourceManager, JobMaster or TaskManager: another interval has passed."""
