"""What the SlotManager is told and what it asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.ignore import Ignore
from flykka.messages.ids import AllocationId, JobId, SlotId, TaskManagerId
from flykka.messages.registration import SlotReport

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerStarted:
    """Nothing has been started yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerRegistered:
    """A TaskManager is there, or says so again."""

    task_manager: TaskManagerId
    report: SlotReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsReported:
    """A heartbeat brought the state of the slots."""

    task_manager: TaskManagerId
    report: SlotReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerGone:
    """A TaskManager has ended or is silent; also one that was started and never registered."""

    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequested:
    """A JobMaster wants a slot for the allocation."""

    job_id: JobId
    allocation_id: AllocationId


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
class GiveSlot:
    """Tell the TaskManager to give the slot to the job and to offer it there."""

    task_manager: TaskManagerId
    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAllocation:
    """Tell the JobMaster that the allocation it had is gone."""

    job_id: JobId
    allocation_id: AllocationId
    reason: str


SlotManagerEffect = StartTaskManager | AcceptTaskManager | RefuseTaskManager | GiveSlot | FailAllocation | Ignore
