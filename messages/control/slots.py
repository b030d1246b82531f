"""Slots: asked for at the ResourceManager, offered by TaskManagers, freed when the last task has left."""

from __future__ import annotations

from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, LeaderSessionId, SlotId, TaskManagerId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@message("slots.request")
class RequestSlot(Message):
    """JobMaster -> ResourceManager: one slot for this allocation, of this size at least, please."""

    job_id: JobId
    allocation_id: AllocationId
    job_master: Ref
    resources: ResourceSpec = ResourceSpec()


@message("slots.cancel_request")
class CancelSlotRequest(Message):
    """JobMaster -> ResourceManager: the allocation is no longer wanted."""

    allocation_id: AllocationId


@message("slots.allocate")
class AllocateSlot(Message):
    """ResourceManager -> TaskManager: give this slot to the job and offer it to its JobMaster (Flink's requestSlot).

    With `cut` it is a new one, which is cut to this size of what is not used.
    """

    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId
    job_master: Ref
    job_leader_session_id: LeaderSessionId
    cut: ResourceSpec | None = None


@message("slots.allocate_confirmed")
class AllocateSlotConfirmed(Message):
    """TaskManager -> ResourceManager: the slot is the job's, and is being offered there; where it was `cut`, its size.

    Who has given up waiting for the answer does not know a slot that was cut.
    """

    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId
    cut: ResourceSpec | None = None


@message("slots.allocate_refused")
class AllocateSlotRefused(Message):
    """TaskManager -> ResourceManager: the slot is not free; my report is the truth."""

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
    """TaskManager -> JobMaster: these slots are yours. An offer that is made again has the number it had before."""

    task_manager_id: TaskManagerId
    offers: tuple[SlotOffer, ...]
    offer: int = 0


@message("slots.offer_timed_out")
class OfferTimedOut(Message):
    """TaskManager's timer -> itself: the JobMaster has not answered this offer."""

    job_id: JobId
    offer: int


@message("slots.slot_timed_out")
class SlotTimedOut(Message):
    """TaskManager's timer -> itself: this slot has waited for its JobMaster for long."""

    allocation_id: AllocationId


@message("slots.accept")
class AcceptSlots(Message):
    """JobMaster -> TaskManager: accepted; what was in the offer of this number and is not named here is not wanted."""

    job_id: JobId
    accepted: tuple[AllocationId, ...]
    offer: int = 0


@message("slots.free")
class FreeSlot(Message):
    """JobMaster -> TaskManager: the job needs the slot no more."""

    allocation_id: AllocationId


@message("slots.available")
class SlotAvailable(Message):
    """TaskManager -> ResourceManager: the slot is free again."""

    slot_id: SlotId
    allocation_id: AllocationId


@message("slots.request_failed")
class SlotRequestFailed(Message):
    """ResourceManager -> JobMaster: the allocation cannot be had; no slot will ever do if it `is_unfulfillable`."""

    allocation_id: AllocationId
    reason: str
    is_unfulfillable: bool = False


@message("slots.fail")
class FailSlot(Message):
    """TaskManager -> JobMaster: you believe to have this slot of mine, and I know nothing of it (Flink's failSlot)."""

    task_manager_id: TaskManagerId
    allocation_id: AllocationId
    reason: str
