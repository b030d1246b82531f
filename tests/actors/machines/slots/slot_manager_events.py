"""Short builders of events and effects of the SlotManager."""

from __future__ import annotations

from flykka.actors.machines.effects import JobMasterOf, Tell
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, share_of
from flykka.actors.machines.slots.slot_manager import AssignSlot, ResourceManagerStarted, SlotManager, TaskManagerGone
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.messages.control.registration import Heartbeat, RegisterTaskManager, SlotReport, SlotStatus
from flykka.messages.control.slots import (
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    RequestSlot,
    SlotAvailable,
    SlotRequestFailed,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, TaskManagerId, slot_id
from flykka.messages.wire.ref import Ref
from tests.actors.machines.scheduling.feeding import feed

FIRST, SECOND, THIRD = (TaskManagerId(f"task-manager-{number}") for number in (1, 2, 3))


def slot_report(task_manager: TaskManagerId, *holders: str | None) -> SlotReport:
    """Return a report with one slot per holder: an allocation of job-1, or None for a free slot."""
    return SlotReport(
        slots=tuple(
            SlotStatus(
                slot_id=slot_id(task_manager, index),
                allocation_id=None if holder is None else AllocationId(holder),
                job_id=None if holder is None else JobId("job-1"),
            )
            for index, holder in enumerate(holders)
        )
    )


def registration_of_slots(task_manager: TaskManagerId, slots: int, total: ResourceSpec) -> RegisterTaskManager:
    size = share_of(total, slots)
    free = tuple(SlotStatus(slot_id=slot_id(task_manager, index), resources=size) for index in range(slots))
    return registers(task_manager, SlotReport(slots=free, total=total))


def registers(task_manager: TaskManagerId, slots: SlotReport, instance: int = 1) -> RegisterTaskManager:
    ref = Ref(path=f"/user/{task_manager}", incarnation=instance)
    return RegisterTaskManager(task_manager_id=task_manager, task_manager=ref, slot_report=slots)


def registered(task_manager: TaskManagerId, *holders: str | None, instance: int = 1) -> RegisterTaskManager:
    return registers(task_manager, slot_report(task_manager, *holders), instance)


def slot_heartbeat(task_manager: TaskManagerId, *holders: str | None) -> Heartbeat:
    return Heartbeat(task_manager_id=task_manager, slot_report=slot_report(task_manager, *holders))


def requested(allocation: str, job: str = "job-1", resources: ResourceSpec = UNSPECIFIED) -> RequestSlot:
    return RequestSlot(
        job_id=JobId(job),
        allocation_id=AllocationId(allocation),
        job_master=Ref(path=f"/user/{job}", incarnation=1),
        resources=resources,
    )


def fails(allocation: str, reason: str, job: str = "job-1") -> Tell[JobMasterOf]:
    failed = SlotRequestFailed(allocation_id=AllocationId(allocation), reason=reason)
    return Tell(to=JobMasterOf(JobId(job)), message=failed)


def gives(
    task_manager: TaskManagerId, index: int, allocation: str, job: str = "job-1", cut: ResourceSpec | None = None
) -> AssignSlot:
    return AssignSlot(
        task_manager=task_manager,
        slot_id=slot_id(task_manager, index),
        job_id=JobId(job),
        allocation_id=AllocationId(allocation),
        cut=cut,
    )


def confirmed(task_manager: TaskManagerId, index: int, allocation: str, job: str = "job-1") -> AllocateSlotConfirmed:
    return AllocateSlotConfirmed(
        slot_id=slot_id(task_manager, index), job_id=JobId(job), allocation_id=AllocationId(allocation)
    )


def allocation_refused(
    task_manager: TaskManagerId, index: int, allocation: str, by: str | None = None
) -> AllocateSlotRefused:
    return AllocateSlotRefused(
        slot_id=slot_id(task_manager, index),
        allocation_id=AllocationId(allocation),
        occupied_by=None if by is None else AllocationId(by),
    )


def freed(task_manager: TaskManagerId, index: int, allocation: str) -> SlotAvailable:
    return SlotAvailable(slot_id=slot_id(task_manager, index), allocation_id=AllocationId(allocation))


def gone(task_manager: TaskManagerId) -> TaskManagerGone:
    return TaskManagerGone(task_manager=task_manager, reason="killed")


def manager(task_managers: int = 0) -> SlotManager:
    slots = SlotManager(WorkerCounts(configured=task_managers))
    feed(slots, ResourceManagerStarted())
    return slots
