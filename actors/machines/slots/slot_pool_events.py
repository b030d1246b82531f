"""Events and effects of the SlotPool."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_requests import SlotRequestId
from flykka.messages.control.slots import SlotOffer
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, SlotId, TaskManagerId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWanted:
    """The job needs a slot of this size: the free one of `held`, or a new one, for which the ResourceManager is asked.

    One that `is_batch` waits for slots that the job has, as long as one is large enough (Flink's batch slot request).
    """

    request_id: SlotRequestId
    resources: ResourceSpec = UNSPECIFIED
    held: AllocationId | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReturned:
    """The slot, or the wish for it, is no longer needed; one that `is_kept` serves nobody else until it is unkept."""

    request_id: SlotRequestId
    is_kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUnkept:
    """The attempt that was to come back to the slot has another one: it may serve any request."""

    allocation_id: AllocationId


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
    """A TaskManager holds these slots for the job; `offer` is the number of the offer."""

    task_manager: TaskManagerId
    offers: tuple[SlotOffer, ...]
    offer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFailed:
    """The allocation cannot be had, or is lost; it `is_unfulfillable` where no slot will ever be large enough."""

    allocation_id: AllocationId
    reason: str
    is_unfulfillable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimedOut:
    """The request has waited for as long as it may."""

    request_id: SlotRequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCheckDue:
    """Time to give back what has been free for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimeoutCheckDue:
    """Time to see which batch requests no slot of the job can ever serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClosed:
    """The job needs no slots, now or later."""


SlotPoolEvent = (
    SlotWanted
    | SlotReturned
    | SlotUnkept
    | ResourceManagerConnected
    | ResourceManagerDisconnected
    | TaskManagerConnected
    | TaskManagerDisconnected
    | SlotsOffered
    | AllocationFailed
    | RequestTimedOut
    | IdleCheckDue
    | BatchTimeoutCheckDue
    | PoolClosed
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForSlot:
    """Ask the ResourceManager for a slot of this size for this allocation."""

    allocation_id: AllocationId
    resources: ResourceSpec = UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawRequest:
    """Tell the ResourceManager that the allocation is no longer wanted."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOffers:
    """Tell the TaskManager which of the slots it has just offered are taken."""

    task_manager: TaskManagerId
    accepted: tuple[AllocationId, ...]
    offer: int = 0


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
    size: ResourceSpec = UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequestRejected:
    """The request will have no slot. Where that `is_temporary`, the one that was meant for it is gone: ask again."""

    request_id: SlotRequestId
    reason: str
    has_timed_out: bool = False
    is_temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLost:
    """The slot that the request had is gone; what ran in it is lost."""

    request_id: SlotRequestId
    allocation_id: AllocationId
    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSlotGone:
    """A slot that nobody used is no longer the job's."""

    allocation_id: AllocationId
    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class DismissTaskManager:
    """The last slot of the TaskManager has failed: nothing binds it to the job any more."""

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


ToldToOthers = (
    AskForSlot
    | WithdrawRequest
    | AnswerOffers
    | FreeAtTaskManager
    | DismissTaskManager
    | StartRequestTimer
    | CancelRequestTimer
    | Ignore
)
"""Requests of the pool beyond those that it gives its slots to."""
SlotPoolEffect = SlotAssigned | SlotRequestRejected | SlotLost | FreeSlotGone | ToldToOthers
