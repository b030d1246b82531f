"""Events and effects of the SlotManager."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.messages.control.registration import SlotReport
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerStarted:
    """These TaskManagers, of an earlier ResourceManager, live and are on their way here; no other has been started."""

    task_managers: tuple[TaskManagerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerRegistered:
    """A TaskManager is there, or says so again; of one name there may be several instances one after the other."""

    task_manager: TaskManagerId
    report: SlotReport
    instance: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsReported:
    """A heartbeat brought the state of the slots."""

    task_manager: TaskManagerId
    report: SlotReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerGone:
    """A TaskManager has ended or is silent; also one that was started and never registered.

    Where it `is_superseded`, its successor, or it itself, registers under its name.
    """

    task_manager: TaskManagerId
    reason: str
    instance: int = 1
    is_superseded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerAnswered:
    """The TaskManager says whether it may be released; `idle_period` is what it was asked for."""

    task_manager: TaskManagerId
    idle_period: int
    can_be_released: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutCheckDue:
    """Time to see who waits for too long, and who is idle for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfulfillableRequestsRefused:
    """From now on, or not any more, requests fail at once that no slot will ever be large enough for."""

    is_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequested:
    """A JobMaster wants a slot of this size for the allocation."""

    job_id: JobId
    allocation_id: AllocationId
    resources: ResourceSpec = UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequestCancelled:
    """The JobMaster wants it no longer."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationConfirmed:
    """The TaskManager has given the slot to the allocation."""

    slot_id: SlotId
    allocation_id: AllocationId
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRefused:
    """The TaskManager has not given the slot; `occupied_by` is what holds it."""

    slot_id: SlotId
    allocation_id: AllocationId
    occupied_by: AllocationId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFreed:
    """The TaskManager has taken the slot back from the allocation."""

    slot_id: SlotId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGone:
    """The JobMaster of the job has left or is lost; its TaskManagers free its slots themselves."""

    job_id: JobId


SlotManagerEvent = (
    ResourceManagerStarted
    | TaskManagerRegistered
    | SlotsReported
    | TaskManagerGone
    | TaskManagerAnswered
    | TimeoutCheckDue
    | UnfulfillableRequestsRefused
    | SlotRequested
    | SlotRequestCancelled
    | AllocationConfirmed
    | AllocationRefused
    | SlotFreed
    | JobGone
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTaskManager:
    """Start a TaskManager of this id, after `delay_ms`."""

    task_manager: TaskManagerId
    delay_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptTaskManager:
    """Tell the TaskManager that it is registered."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseTaskManager:
    """Tell the TaskManager that it will not be registered."""

    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWhetherReleasable:
    """Ask the TaskManager, which has been idle since its idle period began, whether anybody needs it still."""

    task_manager: TaskManagerId
    idle_period: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetTaskManagerGo:
    """Tell the TaskManager to end: nobody needs it."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveSlot:
    """Tell the TaskManager to give the slot to the job and to offer it there."""

    task_manager: TaskManagerId
    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAllocation:
    """Tell the JobMaster that the allocation it had is gone, or cannot be had."""

    job_id: JobId
    allocation_id: AllocationId
    reason: str
    is_unfulfillable: bool = False


SlotManagerEffect = (
    StartTaskManager
    | AcceptTaskManager
    | RefuseTaskManager
    | AskWhetherReleasable
    | LetTaskManagerGo
    | GiveSlot
    | FailAllocation
    | Ignore
)
