"""Events and effects of the SlotPool, short enough to be read at a glance."""

from __future__ import annotations

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_pool import REQUEST_TIMEOUT_MS, SlotPool
from flykka.actors.machines.slots.slot_pool_events import (
    AnswerOffers,
    AskForSlot,
    CancelRequestTimer,
    FreeAtTaskManager,
    FreeSlotGone,
    ResourceManagerConnected,
    SlotAssigned,
    SlotLost,
    SlotReturned,
    SlotsOffered,
    SlotWanted,
    StartRequestTimer,
    TaskManagerConnected,
    WithdrawRequest,
)
from flykka.actors.machines.slots.slot_requests import SlotRequestId
from flykka.messages.control.slots import SlotOffer
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, TaskManagerId, slot_id
from tests.actors.machines.scheduling.feeding import feed

FIRST = TaskManagerId("task-manager-1")
SECOND = TaskManagerId("task-manager-2")


def wanted(
    request: str, *, held: str | None = None, resources: ResourceSpec = UNSPECIFIED, is_batch: bool = False
) -> SlotWanted:
    """A request that takes the slot `held`, or has one asked for: `a-1` for the first of those, and so on."""
    return SlotWanted(
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
) -> SlotsOffered:
    """An offer of the slots `first_index`, `first_index` + 1, ..."""
    return SlotsOffered(
        task_manager=task_manager,
        offers=tuple(
            SlotOffer(allocation_id=AllocationId(allocation), slot_id=slot_id(task_manager, index), resources=resources)
            for index, allocation in enumerate(allocations, first_index)
        ),
    )


def assigned(
    request: str,
    allocation: str,
    index: int = 0,
    task_manager: TaskManagerId = FIRST,
    size: ResourceSpec = UNSPECIFIED,
) -> SlotAssigned:
    return SlotAssigned(
        request_id=SlotRequestId(request),
        allocation_id=AllocationId(allocation),
        slot_id=slot_id(task_manager, index),
        task_manager=task_manager,
        size=size,
    )


def answered(*allocations: str, task_manager: TaskManagerId = FIRST) -> AnswerOffers:
    return AnswerOffers(task_manager=task_manager, accepted=tuple(AllocationId(each) for each in allocations))


def asks(allocation: str, resources: ResourceSpec = UNSPECIFIED) -> AskForSlot:
    return AskForSlot(allocation_id=AllocationId(allocation), resources=resources)


def withdraws(allocation: str) -> WithdrawRequest:
    return WithdrawRequest(allocation_id=AllocationId(allocation))


def frees(allocation: str, task_manager: TaskManagerId = FIRST) -> FreeAtTaskManager:
    return FreeAtTaskManager(task_manager=task_manager, allocation_id=AllocationId(allocation))


def gone(allocation: str, task_manager: TaskManagerId = FIRST) -> FreeSlotGone:
    return FreeSlotGone(allocation_id=AllocationId(allocation), task_manager=task_manager)


def starts_timer(request: str) -> StartRequestTimer:
    return StartRequestTimer(request_id=SlotRequestId(request), delay_ms=REQUEST_TIMEOUT_MS)


def cancels_timer(request: str) -> CancelRequestTimer:
    return CancelRequestTimer(request_id=SlotRequestId(request))


def loses(request: str, allocation: str, reason: str, task_manager: TaskManagerId = FIRST) -> SlotLost:
    return SlotLost(
        request_id=SlotRequestId(request),
        allocation_id=AllocationId(allocation),
        task_manager=task_manager,
        reason=reason,
    )


def pool() -> SlotPool:
    """A pool that knows the ResourceManager and one TaskManager; its allocations are `a-1`, `a-2`, ..."""
    slots = SlotPool("a")
    feed(slots, ResourceManagerConnected(), TaskManagerConnected(task_manager=FIRST))
    return slots


def free_slots(slots: SlotPool, *task_managers: TaskManagerId) -> tuple[AllocationId, ...]:
    """What nobody uses of the slots of these TaskManagers, of `FIRST` unless they are named."""
    held = (each for name in task_managers or (FIRST,) for each in slots.report(name).values())
    return tuple(filter(slots.is_free, held))
