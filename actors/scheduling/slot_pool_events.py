"""What the SlotPool is told and what it asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.slot_sharing import SlotRequestId
from flykka.messages.ids import AllocationId, SlotId, TaskManagerId
from flykka.messages.slots import SlotOffer

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWanted:
    """The job needs a slot; `allocation_id` is a new id, under which the ResourceManager may be asked for it."""

    request_id: SlotRequestId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReturned:
    """The slot, or the wish for it, is no longer needed."""

    request_id: SlotRequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerConnected:
    """The ResourceManager knows the JobMaster and takes its requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerDisconnected:
    """There is no ResourceManager to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerConnected:
    """A TaskManager has registered at the JobMaster and may offer slots."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerDisconnected:
    """A TaskManager is gone, and its slots with it."""

    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsOffered:
    """A TaskManager holds these slots for the job."""

    task_manager: TaskManagerId
    offers: tuple[SlotOffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFailed:
    """The ResourceManager says that the allocation cannot be had, or is lost."""

    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimedOut:
    """The request has waited for as long as it may."""

    request_id: SlotRequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCheckDue:
    """Time to give back what has been free for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClosed:
    """The job needs no slots, now or later."""


SlotPoolEvent = (
    SlotWanted
    | SlotReturned
    | ResourceManagerConnected
    | ResourceManagerDisconnected
    | TaskManagerConnected
    | TaskManagerDisconnected
    | SlotsOffered
    | AllocationFailed
    | RequestTimedOut
    | IdleCheckDue
    | PoolClosed
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForSlot:
    """Ask the ResourceManager for a slot for this allocation."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawRequest:
    """Tell the ResourceManager that the allocation is no longer wanted."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOffers:
    """Tell the TaskManager which of the slots it has just offered are taken."""

    task_manager: TaskManagerId
    accepted: tuple[AllocationId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeAtTaskManager:
    """Tell the TaskManager that the job needs the slot no more."""

    task_manager: TaskManagerId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAssigned:
    """The request has its slot."""

    request_id: SlotRequestId
    allocation_id: AllocationId
    slot_id: SlotId
    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequestRejected:
    """The request will have no slot."""

    request_id: SlotRequestId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLost:
    """The slot that the request had is gone; what ran in it is lost."""

    request_id: SlotRequestId
    allocation_id: AllocationId
    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequestTimer:
    """Report `RequestTimedOut` after `delay_ms`."""

    request_id: SlotRequestId
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequestTimer:
    """The request waits no more."""

    request_id: SlotRequestId


SlotPoolEffect = (
    AskForSlot
    | WithdrawRequest
    | AnswerOffers
    | FreeAtTaskManager
    | SlotAssigned
    | SlotRequestRejected
    | SlotLost
    | StartRequestTimer
    | CancelRequestTimer
    | Ignore
)
