"""Events and effects of the SlotManager, beside the messages that it handles and sends."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore, JobMasterOf, Tell
from flykka.actors.machines.slots.slot_table import JobDisconnected
from flykka.messages.control.registration import (
    Heartbeat,
    HeartbeatDue,
    RegisterTaskManager,
    ReleaseAnswer,
    StartUpPeriodElapsed,
)
from flykka.messages.control.slots import (
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    CancelSlotRequest,
    RequestSlot,
    SlotAvailable,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerStarted:
    """The ResourceManager begins; these TaskManagers of an earlier one live and are about to register."""

    task_managers: tuple[TaskManagerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerGone:
    """A TaskManager has ended or is silent; also one that was started and never registered.

    Where it `is_superseded`, its successor, or it itself, registers under its name.
    """

    task_manager: TaskManagerId
    reason: str
    instance: int = 1
    is_superseded: bool = False


SlotManagerEvent = (
    ResourceManagerStarted
    | RegisterTaskManager
    | Heartbeat
    | TaskManagerGone
    | ReleaseAnswer
    | HeartbeatDue
    | StartUpPeriodElapsed
    | RequestSlot
    | CancelSlotRequest
    | AllocateSlotConfirmed
    | AllocateSlotRefused
    | SlotAvailable
    | JobDisconnected
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTaskManager:
    """Start a TaskManager of this id, after `delay_ms`."""

    task_manager: TaskManagerId
    delay_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptTaskManager:
    """Acknowledge the registration of the TaskManager, under a session of its own."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTaskManager:
    """End the registration of the TaskManager, which is refused or released."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveSlot:
    """Have the TaskManager allocate the slot to the job, whose JobMaster the actor adds.

    One that is `cut` is made for it, of this size.
    """

    task_manager: TaskManagerId
    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId
    cut: ResourceSpec | None = None


SlotManagerEffect = (
    StartTaskManager | AcceptTaskManager | ForgetTaskManager | GiveSlot | Tell[TaskManagerId | JobMasterOf] | Ignore
)
