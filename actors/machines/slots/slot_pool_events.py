"""Events and effects of the SlotPool, beside the messages that it handles and sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_requests import AssignedSlot
from flykka.messages.control.job import TaskManagerLost
from flykka.messages.control.job_control import IdleSlotsDue, SlotRequestTimedOut
from flykka.messages.control.registration import RegisterTaskManager
from flykka.messages.control.slots import FailSlot, OfferSlots, SlotRequestFailed
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, SlotRequestId, TaskManagerId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWanted:
    """The job needs a slot of this size: the free one of `held`, or a new one from the ResourceManager.

    One that `is_batch` waits for slots that the job has, as long as one is large enough (Flink's batch slot request).
    """

    request_id: SlotRequestId
    resources: ResourceSpec = UNSPECIFIED
    held: AllocationId | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReturned:
    """The request needs its slot no longer; a slot that `is_kept` stays reserved until `SlotUnkept`."""

    request_id: SlotRequestId
    is_kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUnkept:
    """The reservation of the slot has ended, because its attempt has another slot; it can serve any request."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerConnected:
    """The ResourceManager knows the JobMaster and accepts its requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerDisconnected:
    """No ResourceManager is connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClosed:
    """The job has ended and needs no slots."""


SlotPoolEvent = (
    SlotWanted
    | SlotReturned
    | SlotUnkept
    | ResourceManagerConnected
    | ResourceManagerDisconnected
    | RegisterTaskManager
    | TaskManagerLost
    | OfferSlots
    | SlotRequestFailed
    | FailSlot
    | SlotRequestTimedOut
    | IdleSlotsDue
    | PoolClosed
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAssigned:
    """The request has its slot."""

    request_id: SlotRequestId
    slot: AssignedSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequestRejected:
    """The request has failed; if that `is_temporary`, its slot was lost, and another request can succeed."""

    request_id: SlotRequestId
    reason: str
    is_temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRemoved:
    """The job has lost the slot, and with it the attempts that ran in it for a request."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    reason: str
    request_id: SlotRequestId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEmptyTaskManager:
    """Disconnect the TaskManager, whose last slot has failed (Flink's releaseEmptyTaskManager)."""

    task_manager: TaskManagerId
    reason: str


PoolAddress = Literal[Role.RESOURCE_MANAGER] | TaskManagerId
OutwardEffect = Tell[PoolAddress] | ReleaseEmptyTaskManager | StartTimer | CancelTimer | Ignore
"""Effects of the pool that are not about slots of attempts."""
SlotPoolEffect = SlotAssigned | SlotRequestRejected | SlotRemoved | OutwardEffect
