"""Events and effects of the SlotTable."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.ignore import Ignore
from flykka.messages.control.slots import SlotOffer
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, SlotId

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
    """The JobMaster takes these of the slots that it was offered under this number, and no other."""

    job_id: JobId
    accepted: tuple[AllocationId, ...]
    offer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferTimedOut:
    """The JobMaster has not answered the offer of this number."""

    job_id: JobId
    offer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTimedOut:
    """The slot was given to the allocation long ago, and its JobMaster may not have taken it."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationsKnown:
    """These are the allocations that the JobMaster believes to have here (Flink's AllocatedSlotReport)."""

    job_id: JobId
    allocations: tuple[AllocationId, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost:
    """Nothing is heard of the JobMaster: its tasks end, and what they leave unused it may be offered again."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableClosed:
    """Nothing more is to run here."""


SlotTableEvent = (
    AllocationRequested
    | JobConnected
    | OfferAnswered
    | OfferTimedOut
    | SlotTimedOut
    | AllocationsKnown
    | TaskSubmitted
    | TaskEnded
    | SlotFreeRequested
    | JobDisconnected
    | JobLost
    | TableClosed
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
    """Offer the slots to the JobMaster of the job, and report `OfferTimedOut` if it does not answer."""

    job_id: JobId
    offers: tuple[SlotOffer, ...]
    offer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelOfferTimer:
    """The last offer to the JobMaster waits for no answer any more."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSlotTimer:
    """Report `SlotTimedOut` when the slot has waited for its JobMaster for long."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSlotTimer:
    """The slot waits no more."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAtJobMaster:
    """Tell the JobMaster that nothing is known here of an allocation that it believes to have."""

    job_id: JobId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Nothing runs here any more, and nothing will."""


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
    | CancelOfferTimer
    | StartSlotTimer
    | CancelSlotTimer
    | FailAtJobMaster
    | End
    | RunTask
    | RejectTask
    | StopTask
    | AnnounceFreeSlot
    | Ignore
)
