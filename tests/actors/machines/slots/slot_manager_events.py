"""Events and effects of the SlotManager, short enough to be read at a glance."""

from __future__ import annotations

from flykka.actors.machines.slots.slot_manager import SlotManager
from flykka.actors.machines.slots.slot_manager_events import (
    AllocationConfirmed,
    AllocationRefused,
    GiveSlot,
    ResourceManagerStarted,
    SlotFreed,
    SlotRequested,
    SlotsReported,
    TaskManagerGone,
    TaskManagerRegistered,
)
from flykka.actors.machines.slots.task_manager_tracker import Workers
from flykka.messages.control.registration import SlotReport, SlotStatus
from flykka.messages.wire.ids import AllocationId, JobId, TaskManagerId, slot_id
from tests.actors.machines.scheduling.feeding import feed

FIRST, SECOND, THIRD = (TaskManagerId(f"task-manager-{number}") for number in (1, 2, 3))


def report(task_manager: TaskManagerId, *holders: str | None) -> SlotReport:
    """A report of one slot per holder: an allocation of job-1, or None for a free slot."""
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


def registered(task_manager: TaskManagerId, *holders: str | None) -> TaskManagerRegistered:
    return TaskManagerRegistered(task_manager=task_manager, report=report(task_manager, *holders))


def reported(task_manager: TaskManagerId, *holders: str | None) -> SlotsReported:
    return SlotsReported(task_manager=task_manager, report=report(task_manager, *holders))


def requested(allocation: str, job: str = "job-1") -> SlotRequested:
    return SlotRequested(job_id=JobId(job), allocation_id=AllocationId(allocation))


def gives(task_manager: TaskManagerId, index: int, allocation: str, job: str = "job-1") -> GiveSlot:
    return GiveSlot(
        task_manager=task_manager,
        slot_id=slot_id(task_manager, index),
        job_id=JobId(job),
        allocation_id=AllocationId(allocation),
    )


def confirmed(task_manager: TaskManagerId, index: int, allocation: str, job: str = "job-1") -> AllocationConfirmed:
    return AllocationConfirmed(
        slot_id=slot_id(task_manager, index), job_id=JobId(job), allocation_id=AllocationId(allocation)
    )


def refused(task_manager: TaskManagerId, index: int, allocation: str, by: str | None = None) -> AllocationRefused:
    return AllocationRefused(
        slot_id=slot_id(task_manager, index),
        allocation_id=AllocationId(allocation),
        occupied_by=None if by is None else AllocationId(by),
    )


def freed(task_manager: TaskManagerId, index: int, allocation: str) -> SlotFreed:
    return SlotFreed(slot_id=slot_id(task_manager, index), allocation_id=AllocationId(allocation))


def gone(task_manager: TaskManagerId) -> TaskManagerGone:
    return TaskManagerGone(task_manager=task_manager, reason="killed")


def manager(task_managers: int = 0) -> SlotManager:
    slots = SlotManager(Workers(configured=task_managers))
    feed(slots, ResourceManagerStarted())
    return slots
