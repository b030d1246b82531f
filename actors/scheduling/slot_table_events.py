"""What the SlotTable is told and what it asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.ignore import Ignore
from flykka.messages.ids import AllocationId, ExecutionAttemptId, JobId, SlotId
from flykka.messages.slots import SlotOffer
from flykka.messages.task import TaskDeploymentDescriptor

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRequested:
    """The ResourceManager gives the slot to a job."""

    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConnected:
    """The JobMaster of the job has acknowledged this TaskManager: it can be offered slots."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferAnswered:
    """The JobMaster takes these of the slots it was offered, and no other."""

    job_id: JobId
    accepted: tuple[AllocationId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSubmitted:
    """An attempt is to run in the slot of the allocation that its descriptor names."""

    descriptor: TaskDeploymentDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """Nothing of the attempt runs any more."""

    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFreeRequested:
    """The JobMaster needs the slot no more."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDisconnected:
    """The JobMaster of the job is gone: so are its claims."""

    job_id: JobId


SlotTableEvent = (
    AllocationRequested | JobConnected | OfferAnswered | TaskSubmitted | TaskEnded | SlotFreeRequested | JobDisconnected
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmAllocation:
    """Tell the ResourceManager that the slot is the job's."""

    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseAllocation:
    """Tell the ResourceManager that the slot is not to be had."""

    slot_id: SlotId
    allocation_id: AllocationId
    occupied_by: AllocationId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferToJobMaster:
    """Offer the slots to the JobMaster of the job."""

    job_id: JobId
    offers: tuple[SlotOffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """Run the attempt that was submitted."""

    descriptor: TaskDeploymentDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectTask:
    """Tell the JobMaster that the attempt cannot run here."""

    job_id: JobId
    attempt: ExecutionAttemptId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTask:
    """End the attempt: its slot is given up."""

    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceFreeSlot:
    """Tell the ResourceManager that the slot is free again."""

    slot_id: SlotId
    allocation_id: AllocationId


SlotTableEffect = (
    ConfirmAllocation
    | RefuseAllocation
    | OfferToJobMaster
    | RunTask
    | RejectTask
    | StopTask
    | AnnounceFreeSlot
    | Ignore
)
