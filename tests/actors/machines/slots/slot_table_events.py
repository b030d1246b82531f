"""Short builders of the events and effects of a TaskManager's slot table."""

from __future__ import annotations

from typing import Literal

from flykka.actors.machines.effects import CancelTimer, JobMasterOf, Role, StartTimer, Tell
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, share_of
from flykka.actors.machines.slots.slot_table import (
    OFFER_TIMEOUT_MS,
    SLOT_TIMEOUT_MS,
    JobConnected,
    SlotTable,
    SlotTableEffect,
    SlotTableEvent,
    TaskEnded,
)
from flykka.messages.control.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    FailSlot,
    FreeSlot,
    OfferSlots,
    OfferTimedOut,
    SlotAvailable,
    SlotOffer,
    SlotTimedOut,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.tasks.task import (
    ExecutionState,
    FailTask,
    SubmitTask,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import (
    AllocationId,
    ExecutionAttemptId,
    JobId,
    LeaderSessionId,
    SlotId,
    TaskManagerId,
    slot_id,
)
from flykka.messages.wire.ref import Ref
from tests.actors.machines.scheduling.descriptors import descriptor
from tests.actors.machines.scheduling.feeding import feed

HERE = TaskManagerId("task-manager-1")
JOB = JobId("job-1")
OTHER_JOB = JobId("job-2")


def slot(index: int) -> SlotId:
    return slot_id(HERE, index)


def requested(allocation: str, index: int = 0, job: JobId = JOB, cut: ResourceSpec | None = None) -> AllocateSlot:
    return AllocateSlot(
        slot_id=slot(index),
        job_id=job,
        allocation_id=AllocationId(allocation),
        job_master=Ref(path=f"/user/{job}", incarnation=1),
        job_leader_session_id=LeaderSessionId("session"),
        cut=cut,
    )


def confirms(allocation: str, index: int = 0, job: JobId = JOB) -> Tell[Literal[Role.RESOURCE_MANAGER]]:
    confirmed = AllocateSlotConfirmed(slot_id=slot(index), job_id=job, allocation_id=AllocationId(allocation))
    return Tell(to=Role.RESOURCE_MANAGER, message=confirmed)


def refuses(allocation: str, index: int = 0, by: str | None = None) -> Tell[Literal[Role.RESOURCE_MANAGER]]:
    occupied_by = None if by is None else AllocationId(by)
    return Tell(
        to=Role.RESOURCE_MANAGER,
        message=AllocateSlotRefused(
            slot_id=slot(index), allocation_id=AllocationId(allocation), occupied_by=occupied_by
        ),
    )


def offers(*allocations: tuple[str, int], job: JobId = JOB, number: int = 1) -> Tell[JobMasterOf]:
    offered = tuple(SlotOffer(allocation_id=AllocationId(name), slot_id=slot(index)) for name, index in allocations)
    return Tell(to=JobMasterOf(job), message=OfferSlots(task_manager_id=HERE, offer=number, offers=offered))


def starts_offer_timer(job: JobId = JOB, number: int = 1) -> StartTimer:
    timed_out = OfferTimedOut(job_id=job, offer=number)
    return StartTimer(key=f"slot-offer/{job}", delay_ms=OFFER_TIMEOUT_MS, message=timed_out)


def cancels_offer_timer(job: JobId = JOB) -> CancelTimer:
    return CancelTimer(key=f"slot-offer/{job}")


def starts_slot_timer(allocation: str) -> StartTimer:
    timed_out = SlotTimedOut(allocation_id=AllocationId(allocation))
    return StartTimer(key=f"slot/{allocation}", delay_ms=SLOT_TIMEOUT_MS, message=timed_out)


def cancels_slot_timer(allocation: str) -> CancelTimer:
    return CancelTimer(key=f"slot/{allocation}")


def fails_slot(allocation: str, job: JobId = JOB) -> Tell[JobMasterOf]:
    reason = f"{HERE} does not know the slot"
    failed = FailSlot(task_manager_id=HERE, allocation_id=AllocationId(allocation), reason=reason)
    return Tell(to=JobMasterOf(job), message=failed)


def rejects(attempt: str, reason: str, job: JobId = JOB) -> Tell[JobMasterOf]:
    failure = SerializedThrowable(type_name="TaskSubmissionError", message=reason)
    reached = TaskExecutionState(attempt=ExecutionAttemptId(attempt), state=ExecutionState.FAILED, failure=failure)
    return Tell(to=JobMasterOf(job), message=UpdateTaskExecutionState(state=reached))


def fails_task(attempt: str) -> Tell[ExecutionAttemptId]:
    text = f"{HERE} has released the slot of {attempt}"
    cause = SerializedThrowable(type_name="SlotGivenUpError", message=text)
    return Tell(to=ExecutionAttemptId(attempt), message=FailTask(attempt=ExecutionAttemptId(attempt), cause=cause))


def answered(*accepted: str, job: JobId = JOB, number: int = 1) -> AcceptSlots:
    return AcceptSlots(job_id=job, offer=number, accepted=tuple(AllocationId(each) for each in accepted))


def submitted(attempt: str, allocation: str, job: JobId = JOB) -> SubmitTask:
    return SubmitTask(
        job_master=Ref(path=f"/user/{job}", incarnation=1),
        descriptor=descriptor(attempt, allocation=allocation, job=job),
    )


def task_ended(attempt: str) -> TaskEnded:
    return TaskEnded(attempt=ExecutionAttemptId(attempt))


def free(allocation: str) -> FreeSlot:
    return FreeSlot(allocation_id=AllocationId(allocation))


def announces(allocation: str, index: int = 0) -> Tell[Literal[Role.RESOURCE_MANAGER]]:
    available = SlotAvailable(slot_id=slot(index), allocation_id=AllocationId(allocation))
    return Tell(to=Role.RESOURCE_MANAGER, message=available)


def slot_table(slots: int = 2, total: ResourceSpec = UNSPECIFIED) -> SlotTable:
    return SlotTable(HERE, slots, share_of(total, slots), total)


def effects_besides_timers(held: SlotTable, *events: SlotTableEvent) -> list[SlotTableEffect]:
    effects = feed(held, *events)
    return [effect for effect in effects if not isinstance(effect, StartTimer | CancelTimer)]


def active(allocation: str = "a", slots: int = 2) -> SlotTable:
    held = slot_table(slots)
    effects_besides_timers(held, requested(allocation), JobConnected(job_id=JOB), answered(allocation))
    return held
