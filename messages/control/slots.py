"""Slots: requested at the ResourceManager, offered by TaskManagers, freed when the last task has ended."""

from __future__ import annotations

from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, LeaderSessionId, SlotId, TaskManagerId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@message("slots.request")
class RequestSlot(Message):
    """JobMaster -> ResourceManager: allocate one slot of at least this size."""

    job_id: JobId
    allocation_id: AllocationId
    job_master: Ref
    resources: ResourceSpec = ResourceSpec()


@message("slots.cancel_request")
class CancelSlotRequest(Message):
    """JobMaster -> ResourceManager: the allocation is no longer needed."""

    allocation_id: AllocationId


@message("slots.allocate")
class AllocateSlot(Message):
    """ResourceManager -> TaskManager: allocate this slot to the job and offer it to its JobMaster (Flink's
    requestSlot).

    With `cut`, create a new slot of this size from unused resources.
    """

    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId
    job_master: Ref
    job_leader_session_id: LeaderSessionId
    cut: ResourceSpec | None = None


@message("slots.allocate_confirmed")
class AllocateSlotConfirmed(Message):
    """TaskManager -> ResourceManager: the slot is allocated and is being offered. `cut` is the size of a new slot.

    A ResourceManager that has stopped waiting for the reply does not know the new slot.
    """

    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId
    cut: ResourceSpec | None = None


@message("slots.allocate_refused")
class AllocateSlotRefused(Message):
    """TaskManager -> ResourceManager: the slot is not free. The slot report shows its state."""

    slot_id: SlotId
    allocation_id: AllocationId
    occupied_by: AllocationId | None = None


@value("slots.offer")
class SlotOffer(Value):
    """A slot that a TaskManager holds for an allocation, and its size."""

    allocation_id: AllocationId
    slot_id: SlotId
    resources: ResourceSpec = ResourceSpec()


@message("slots.offer_slots")
class OfferSlots(Message):
    """TaskManager -> JobMaster: these slots are allocated to the receiver. A repeated offer has the same number."""

    task_manager_id: TaskManagerId
    offers: tuple[SlotOffer, ...]
    offer: int = 0


@message("slots.offer_timed_out")
class OfferTimedOut(Message):
    """TaskManager's timer -> itself: the JobMaster has not replied to this offer."""

    job_id: JobId
    offer: int


@message("slots.slot_timed_out")
class SlotTimedOut(Message):
    """TaskManager's timer -> itself: this slot has waited too long for its JobMaster."""

    allocation_id: AllocationId


@message("slots.accept")
class AcceptSlots(Message):
    """JobMaster -> TaskManager: of the offer with this number, only these allocations are accepted."""

    job_id: JobId
    accepted: tuple[AllocationId, ...]
    offer: int = 0


@message("slots.free")
class FreeSlot(Message):
    """JobMaster -> TaskManager: the job no longer needs the slot."""

    allocation_id: AllocationId


@message("slots.available")
class SlotAvailable(Message):
    """TaskManager -> ResourceManager: the slot is free again."""

    slot_id: SlotId
    allocation_id: AllocationId


@message("slots.request_failed")
class SlotRequestFailed(Message):
    """ResourceManager -> JobMaster: the allocation has failed. If `is_unfulfillable`, no slot can ever fulfil it."""

    allocation_id: AllocationId
    reason: str
    is_unfulfillable: bool = False


@message("slots.fail")
class FailSlot(Message):
    """TaskManager -> JobMaster: the receiver claims this slot, but has no such allocation here (Flink's failSlot)."""

    task_manager_id: TaskManagerId
    allocation_id: AllocationId
    reason: str
