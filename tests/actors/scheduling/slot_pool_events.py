"""Events and effects of the SlotPool, short enough to be read at a glance."""

from __future__ import annotations

from flykka.actors.scheduling.slot_pool import REQUEST_TIMEOUT_MS, SlotPool
from flykka.actors.scheduling.slot_pool_events import (
    AnswerOffers,
    AskForSlot,
    CancelRequestTimer,
    FreeAtTaskManager,
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
from flykka.actors.scheduling.slot_sharing import SlotRequestId
from flykka.messages.ids import AllocationId, TaskManagerId, slot_id
from flykka.messages.slots import SlotOffer
from tests.actors.scheduling.feeding import feed

FIRST = TaskManagerId("task-manager-1")
SECOND = TaskManagerId("task-manager-2")


def wanted(request: str, allocation: str) -> SlotWanted:
    return SlotWanted(request_id=SlotRequestId(request), allocation_id=AllocationId(allocation))


def returned(request: str) -> SlotReturned:
    return SlotReturned(request_id=SlotRequestId(request))


def offered(*allocations: str, task_manager: TaskManagerId = FIRST, first_index: int = 0) -> SlotsOffered:
    """An offer of the slots `first_index`, `first_index` + 1, ..."""
    return SlotsOffered(
        task_manager=task_manager,
        offers=tuple(
            SlotOffer(allocation_id=AllocationId(allocation), slot_id=slot_id(task_manager, index))
            for index, allocation in enumerate(allocations, first_index)
        ),
    )


def assigned(request: str, allocation: str, index: int = 0, task_manager: TaskManagerId = FIRST) -> SlotAssigned:
    return SlotAssigned(
        request_id=SlotRequestId(request),
        allocation_id=AllocationId(allocation),
        slot_id=slot_id(task_manager, index),
        task_manager=task_manager,
    )


def answered(*allocations: str, task_manager: TaskManagerId = FIRST) -> AnswerOffers:
    return AnswerOffers(task_manager=task_manager, accepted=tuple(AllocationId(each) for each in allocations))


def asks(allocation: str) -> AskForSlot:
    return AskForSlot(allocation_id=AllocationId(allocation))


def withdraws(allocation: str) -> WithdrawRequest:
    return WithdrawRequest(allocation_id=AllocationId(allocation))


def frees(allocation: str, task_manager: TaskManagerId = FIRST) -> FreeAtTaskManager:
    return FreeAtTaskManager(task_manager=task_manager, allocation_id=AllocationId(allocation))


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
    """A pool that knows the ResourceManager and one TaskManager."""
    slots = SlotPool()
    feed(slots, ResourceManagerConnected(), TaskManagerConnected(task_manager=FIRST))
    return slots
