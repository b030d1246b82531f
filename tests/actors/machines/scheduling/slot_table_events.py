"""What a TaskManager's table of slots is told and says, in few words."""

from __future__ import annotations

from flykka.actors.machines.slots.slot_table import SlotTable
from flykka.actors.machines.slots.slot_table_events import (
    AllocationRequested,
    AnnounceFreeSlot,
    CancelOfferTimer,
    CancelSlotTimer,
    ConfirmAllocation,
    JobConnected,
    OfferAnswered,
    OfferToJobMaster,
    RefuseAllocation,
    SlotFreeRequested,
    SlotTableEffect,
    SlotTableEvent,
    StartSlotTimer,
    TaskEnded,
    TaskSubmitted,
)
from flykka.messages.control.slots import SlotOffer
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, SlotId, TaskManagerId, slot_id
from tests.actors.machines.scheduling.descriptors import descriptor
from tests.actors.machines.scheduling.feeding import feed

HERE = TaskManagerId("task-manager-1")
JOB = JobId("job-1")
OTHER_JOB = JobId("job-2")


def slot(index: int) -> SlotId:
    return slot_id(HERE, index)


def requested(allocation: str, index: int = 0, job: JobId = JOB) -> AllocationRequested:
    return AllocationRequested(slot_id=slot(index), job_id=job, allocation_id=AllocationId(allocation))


def confirms(allocation: str, index: int = 0, job: JobId = JOB) -> ConfirmAllocation:
    return ConfirmAllocation(slot_id=slot(index), job_id=job, allocation_id=AllocationId(allocation))


def refuses(allocation: str, index: int = 0, by: str | None = None) -> RefuseAllocation:
    return RefuseAllocation(
        slot_id=slot(index),
        allocation_id=AllocationId(allocation),
        occupied_by=None if by is None else AllocationId(by),
    )


def offers(*allocations: tuple[str, int], job: JobId = JOB, number: int = 1) -> OfferToJobMaster:
    return OfferToJobMaster(
        job_id=job,
        offer=number,
        offers=tuple(SlotOffer(allocation_id=AllocationId(name), slot_id=slot(index)) for name, index in allocations),
    )


def answered(*accepted: str, job: JobId = JOB, number: int = 1) -> OfferAnswered:
    return OfferAnswered(job_id=job, offer=number, accepted=tuple(AllocationId(each) for each in accepted))


def submitted(attempt: str, allocation: str, job: JobId = JOB) -> TaskSubmitted:
    return TaskSubmitted(descriptor=descriptor(attempt, allocation=allocation, job=job))


def ended(attempt: str) -> TaskEnded:
    return TaskEnded(attempt=ExecutionAttemptId(attempt))


def free(allocation: str) -> SlotFreeRequested:
    return SlotFreeRequested(allocation_id=AllocationId(allocation))


def announces(allocation: str, index: int = 0) -> AnnounceFreeSlot:
    return AnnounceFreeSlot(slot_id=slot(index), allocation_id=AllocationId(allocation))


def table(slots: int = 2) -> SlotTable:
    return SlotTable(HERE, slots)


def told(held: SlotTable, *events: SlotTableEvent) -> list[SlotTableEffect]:
    """What follows from the events, besides timers."""
    effects = feed(held, *events)
    return [effect for effect in effects if not isinstance(effect, StartSlotTimer | CancelSlotTimer | CancelOfferTimer)]


def active(allocation: str = "a", slots: int = 2) -> SlotTable:
    """A table whose first slot the job has taken."""
    held = table(slots)
    told(held, requested(allocation), JobConnected(job_id=JOB), answered(allocation))
    return held
