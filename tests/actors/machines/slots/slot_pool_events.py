"""Short builders of events and effects of the SlotPool."""

from __future__ import annotations

from typing import Literal

from flykka.actors.machines.effects import CancelTimer, Role, StartTimer, Tell
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_pool import (
    REQUEST_TIMEOUT_MS,
    ResourceManagerConnected,
    SlotAssigned,
    SlotPool,
    SlotRemoved,
    SlotRequested,
    SlotReturned,
)
from flykka.actors.machines.slots.slot_requests import AssignedSlot
from flykka.messages.control.job import TaskManagerLost
from flykka.messages.control.job_control import SlotRequestTimedOut
from flykka.messages.control.registration import RegisterTaskManager
from flykka.messages.control.slots import (
    AcceptSlots,
    CancelSlotRequest,
    FreeSlot,
    OfferSlots,
    RequestSlot,
    SlotOffer,
    SlotRequestFailed,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotRequestId, TaskManagerId, slot_id
from flykka.messages.wire.ref import Ref
from tests.actors.machines.scheduling.feeding import feed

JOB = JobId("job-1")
JOB_MASTER = Ref(path="/user/job-1", incarnation=1)
FIRST = TaskManagerId("task-manager-1")
SECOND = TaskManagerId("task-manager-2")


def connected(task_manager: TaskManagerId) -> RegisterTaskManager:
    return RegisterTaskManager(task_manager_id=task_manager, task_manager=ref_of(task_manager))


def ref_of(task_manager: TaskManagerId) -> Ref:
    return Ref(path=f"/user/{task_manager}", incarnation=1)


def lost(task_manager: TaskManagerId, reason: str = "killed") -> TaskManagerLost:
    return TaskManagerLost(job_id=JOB, task_manager=task_manager, reason=reason, timestamp_ms=0)


def slot_request_failed(allocation: str, reason: str, *, is_unfulfillable: bool = False) -> SlotRequestFailed:
    return SlotRequestFailed(allocation_id=AllocationId(allocation), reason=reason, is_unfulfillable=is_unfulfillable)


def timed_out(request: str) -> SlotRequestTimedOut:
    return SlotRequestTimedOut(request_id=SlotRequestId(request))


def wanted(
    request: str, *, held: str | None = None, resources: ResourceSpec = UNSPECIFIED, is_batch: bool = False
) -> SlotRequested:
    """Return a request for the free slot `held`, or for a new slot, whose allocation is named `a-1`, `a-2`, ..."""
    return SlotRequested(
        request_id=SlotRequestId(request),
        resources=resources,
        held=AllocationId(held) if held else None,
        is_batch=is_batch,
    )


def returned(request: str, *, is_kept: bool = False) -> SlotReturned:
    return SlotReturned(request_id=SlotRequestId(request), is_kept=is_kept)


def offered(
    *allocations: str,
    task_manager: TaskManagerId = FIRST,
    first_index: int = 0,
    resources: ResourceSpec = UNSPECIFIED,
) -> OfferSlots:
    """Return an offer of slots with the indexes `first_index`, `first_index` + 1, ..."""
    return OfferSlots(
        task_manager_id=task_manager,
        offers=tuple(
            SlotOffer(allocation_id=AllocationId(allocation), slot_id=slot_id(task_manager, index), resources=resources)
            for index, allocation in enumerate(allocations, first_index)
        ),
    )


def assigned(
    request: str, allocation: str, task_manager: TaskManagerId = FIRST, size: ResourceSpec = UNSPECIFIED
) -> SlotAssigned:
    slot = AssignedSlot(
        allocation_id=AllocationId(allocation),
        task_manager_id=task_manager,
        task_manager=ref_of(task_manager),
        size=size,
    )
    return SlotAssigned(request_id=SlotRequestId(request), slot=slot)


def answered(*allocations: str, task_manager: TaskManagerId = FIRST) -> Tell[TaskManagerId]:
    accepted = AcceptSlots(job_id=JOB, accepted=tuple(AllocationId(each) for each in allocations))
    return Tell(to=task_manager, message=accepted)


def request_slot(allocation: str, resources: ResourceSpec = UNSPECIFIED) -> Tell[Literal[Role.RESOURCE_MANAGER]]:
    request = RequestSlot(
        job_id=JOB, allocation_id=AllocationId(allocation), job_master=JOB_MASTER, resources=resources
    )
    return Tell(to=Role.RESOURCE_MANAGER, message=request)


def withdraws(allocation: str) -> Tell[Literal[Role.RESOURCE_MANAGER]]:
    return Tell(to=Role.RESOURCE_MANAGER, message=CancelSlotRequest(allocation_id=AllocationId(allocation)))


def frees(allocation: str, task_manager: TaskManagerId = FIRST) -> Tell[TaskManagerId]:
    return Tell(to=task_manager, message=FreeSlot(allocation_id=AllocationId(allocation)))


def starts_timer(request: str) -> StartTimer:
    return StartTimer(key=f"slot-request/{request}", delay_ms=REQUEST_TIMEOUT_MS, message=timed_out(request))


def cancels_timer(request: str) -> CancelTimer:
    return CancelTimer(key=f"slot-request/{request}")


def loses(request: str | None, allocation: str, reason: str, task_manager: TaskManagerId = FIRST) -> SlotRemoved:
    return SlotRemoved(
        request_id=None if request is None else SlotRequestId(request),
        allocation_id=AllocationId(allocation),
        task_manager=task_manager,
        reason=reason,
    )


def pool() -> SlotPool:
    """Return a pool that knows the ResourceManager and one TaskManager; its allocations are `a-1`, `a-2`, ..."""
    slots = SlotPool("a", JOB, JOB_MASTER)
    feed(slots, ResourceManagerConnected(), connected(FIRST))
    return slots


def free_slots(slots: SlotPool, *task_managers: TaskManagerId) -> tuple[AllocationId, ...]:
    held = (each for name in task_managers or (FIRST,) for each in slots.report(name).values())
    return tuple(filter(slots.is_free, held))
