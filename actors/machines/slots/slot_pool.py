"""The slots that a job holds, and its requests for more (Flink's SlotPool).

A request either uses the free slot of the pool that it names, or is sent to the ResourceManager. An offered slot serves
the request with the same allocation. Otherwise it serves the oldest request that fits, whose own allocation is then
withdrawn, or it stays in the pool as a spare. A slot that was unused for a while is returned.

A batch request does not time out while the job has a slot that is large enough, because that slot will become free. If
the job has no such slot for the whole timeout, the request fails.

Not here: which attempts share a slot, which free slot is best (`execution_slot_allocator`), and refs of actors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.slots.least_utilized import LeastUtilized
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, fits
from flykka.actors.machines.slots.slot_requests import AssignedSlot
from flykka.messages.control.job import TaskManagerLost
from flykka.messages.control.job_control import IdleSlotsDue, SlotRequestTimedOut
from flykka.messages.control.registration import RegisterTaskManager
from flykka.messages.control.slots import (
    AcceptSlots,
    CancelSlotRequest,
    FailSlot,
    FreeSlot,
    OfferSlots,
    RequestSlot,
    SlotOffer,
    SlotRequestFailed,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, SlotRequestId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequested:
    """The job needs a slot of this size: the free slot `held`, or a new one from the ResourceManager.

    A request that `is_batch` waits for slots of the job, as long as one is large enough (Flink's batch slot request).
    """

    request_id: SlotRequestId
    resources: ResourceSpec = UNSPECIFIED
    held: AllocationId | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReturned:
    """The request has released its slot. If `is_kept`, the slot stays reserved until `SlotReservationReleased`."""

    request_id: SlotRequestId
    is_kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReservationReleased:
    """The reservation of the slot has ended, because its attempt has another slot. The slot can serve any request."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerConnected:
    """The ResourceManager knows the JobMaster and accepts its requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerDisconnected:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClosed:
    """The job has ended and needs no slots."""


SlotPoolEvent = (
    SlotRequested
    | SlotReturned
    | SlotReservationReleased
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
    request_id: SlotRequestId
    slot: AssignedSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequestRejected:
    """The request has failed. If `is_temporary`, its slot was lost, and another request can succeed."""

    request_id: SlotRequestId
    reason: str
    is_temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRemoved:
    """The job has lost the slot, and with it the attempts that ran in the slot for a request."""

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
SlotPoolEffect = SlotAssigned | SlotRequestRejected | SlotRemoved | OutwardEffect


REQUEST_TIMEOUT_MS = 300_000
"""Flink's slot.request.timeout in ms."""
IDLE_TIMEOUT_MS = 50_000
"""Flink's slot.idle.timeout in ms."""


@dataclass(slots=True, kw_only=True)
class _PooledSlot:
    allocation_id: AllocationId
    slot_id: SlotId
    task_manager: TaskManagerId
    size: ResourceSpec
    request_id: SlotRequestId | None = None
    free_since_ms: int = 0
    is_kept: bool = False


@dataclass(slots=True, kw_only=True)
class _Pending:
    allocation_id: AllocationId
    resources: ResourceSpec
    is_batch: bool
    unfulfillable_since_ms: int | None = None


class SlotPool:
    """The slots of one job, requested on behalf of `job_master`. `name` is the unique prefix of allocation ids."""

    def __init__(
        self,
        name: str,
        job_id: JobId,
        job_master: Ref,
        *,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        idle_timeout_ms: int = IDLE_TIMEOUT_MS,
    ) -> None:
        self._name = name
        self._job_id = job_id
        self._job_master = job_master
        self._asks = 0
        self._request_timeout_ms = request_timeout_ms
        self._idle_timeout_ms = idle_timeout_ms
        self._resource_manager_connected = False
        self._is_closed = False
        # The dicts keep the order: the longest waiting request comes first.
        self._pending: dict[SlotRequestId, _Pending] = {}
        self._asked: dict[AllocationId, SlotRequestId] = {}
        self._slots: dict[AllocationId, _PooledSlot] = {}
        self._at: dict[SlotId, _PooledSlot] = {}
        self._task_managers: dict[TaskManagerId, Ref] = {}
        self._slots_of: dict[TaskManagerId, dict[SlotId, _PooledSlot]] = {}
        self._free: dict[AllocationId, _PooledSlot] = {}
        self._for_anybody = LeastUtilized()
        self._assigned: dict[SlotRequestId, _PooledSlot] = {}

    def handle(self, event: SlotPoolEvent, now: int) -> list[SlotPoolEffect]:
        match event:
            case OfferSlots():
                return self._on_offer_slots(event, now)
            case TaskManagerLost(task_manager=task_manager, reason=reason):
                return self._on_task_manager_lost(task_manager, reason)
            case _ if self._is_closed:
                return [Ignore(reason="the job has ended")]
            case SlotRequested():
                return self._on_requested(event)
            case SlotReturned(request_id=request_id, is_kept=is_kept):
                return self._on_returned(request_id, now, is_kept=is_kept)
            case SlotReservationReleased(allocation_id=allocation_id):
                return self._on_reservation_released(allocation_id, now)
            case ResourceManagerConnected():
                self._resource_manager_connected = True
                return [effect for pending in self._pending.values() for effect in self._request(pending)]
            case ResourceManagerDisconnected():
                self._resource_manager_connected = False
                return []
            case RegisterTaskManager(task_manager_id=task_manager, task_manager=ref):
                if task_manager not in self._slots_of:
                    self._slots_of[task_manager] = {}
                    self._task_managers[task_manager] = ref
                    self._for_anybody.register(task_manager)
                return []
            case SlotRequestFailed() | FailSlot():
                return self._on_allocation_failed(event)
            case SlotRequestTimedOut(request_id=request_id):
                return self._on_timed_out(request_id)
            case IdleSlotsDue():
                return [*self._check_batch_requests(now), *self._release_idle_slots(now)]
            case PoolClosed():
                return self._on_closed()
            case _:
                assert_never(event)

    # Queries

    @property
    def pending_requests(self) -> tuple[SlotRequestId, ...]:
        return tuple(self._pending)

    def holds(self, allocation_id: AllocationId) -> bool:
        return allocation_id in self._slots

    def is_free(self, allocation_id: AllocationId, required: ResourceSpec = UNSPECIFIED) -> bool:
        """Return True if this allocation's slot, which may be reserved, is unused and has the required resources."""
        slot = self._free.get(allocation_id)
        return slot is not None and fits(required, slot.size)

    def choose(self, required: ResourceSpec, task_manager: TaskManagerId | None = None) -> AllocationId | None:
        """Return the best free slot for the required resources: on this TaskManager, or else on the least used one."""
        if task_manager is None:
            slot_id = self._for_anybody.next(required)
        else:
            slot_id = self._for_anybody.next_on(task_manager, required)
        return None if slot_id is None else self._at[slot_id].allocation_id

    def utilization(self, task_manager: TaskManagerId) -> float:
        """Return the used or reserved fraction of the job's slots on a TaskManager, from 0 to 1."""
        return self._for_anybody.utilization(task_manager)

    def report(self, task_manager: TaskManagerId) -> Mapping[SlotId, AllocationId]:
        return {slot_id: slot.allocation_id for slot_id, slot in self._slots_of.get(task_manager, {}).items()}

    def check(self) -> None:
        self._for_anybody.check()
        requests = {pending.allocation_id: request_id for request_id, pending in self._pending.items()}
        assert requests == self._asked
        assert not self._pending.keys() & self._assigned.keys(), "a request that has a slot is still pending"
        for pending in self._pending.values():
            assert self.choose(pending.resources) is None, f"{pending} is waiting although a slot is free"
        for allocation_id, slot in self._slots.items():
            assert (allocation_id in self._free) == (slot.request_id is None)
            assert slot.request_id is None or self._assigned[slot.request_id] is slot
            assert self._at[slot.slot_id] is self._slots_of[slot.task_manager][slot.slot_id] is slot
            for_anybody = self._for_anybody.is_free(slot.task_manager, slot.slot_id)
            assert for_anybody == (slot.request_id is None and not slot.is_kept), f"{slot} is in the wrong index"
        assert len(self._free) + len(self._assigned) == len(self._slots) == len(self._at)
        assert sum(len(slots) for slots in self._slots_of.values()) == len(self._slots)

    # Requests

    def _on_requested(self, event: SlotRequested) -> list[SlotPoolEffect]:
        request_id = event.request_id
        if request_id in self._pending or request_id in self._assigned:
            return [Ignore(reason=f"the slot request {request_id} exists already")]
        if event.held is not None:
            return [self._assign(self._free[event.held], request_id)]
        self._asks += 1
        allocation_id = AllocationId(f"{self._name}-{self._asks}")
        pending = _Pending(allocation_id=allocation_id, resources=event.resources, is_batch=event.is_batch)
        self._pending[request_id] = pending
        self._asked[allocation_id] = request_id
        key, timed_out = _request_timer(request_id), SlotRequestTimedOut(request_id=request_id)
        timer = StartTimer(key=key, delay_ms=self._request_timeout_ms, message=timed_out)
        return [*([] if event.is_batch else [timer]), *self._request(pending)]

    def _request(self, pending: _Pending) -> list[Tell[PoolAddress]]:
        allocation_id, resources = pending.allocation_id, pending.resources
        request = RequestSlot(
            job_id=self._job_id, allocation_id=allocation_id, job_master=self._job_master, resources=resources
        )
        return self._send_to_resource_manager(request)

    def _send_to_resource_manager(self, message: Message) -> list[Tell[PoolAddress]]:
        return [Tell(to=Role.RESOURCE_MANAGER, message=message)] if self._resource_manager_connected else []

    def _on_returned(self, request_id: SlotRequestId, now: int, *, is_kept: bool) -> list[SlotPoolEffect]:
        if request_id in self._pending:
            return self._withdraw(request_id)
        slot = self._assigned.pop(request_id, None)
        if slot is None:
            return [Ignore(reason=f"{request_id} has no slot")]
        slot.request_id, slot.free_since_ms, slot.is_kept = None, now, is_kept
        self._free[slot.allocation_id] = slot
        return [] if is_kept else self._release(slot)

    def _on_reservation_released(self, allocation_id: AllocationId, now: int) -> list[SlotPoolEffect]:
        slot = self._free.get(allocation_id)
        if slot is None or not slot.is_kept:
            return [Ignore(reason=f"{allocation_id} is not reserved")]
        slot.is_kept, slot.free_since_ms = False, now
        return self._release(slot)

    def _on_timed_out(self, request_id: SlotRequestId) -> list[SlotPoolEffect]:
        if request_id not in self._pending:
            return [Ignore(reason=f"{request_id} does not wait")]
        reason = f"no slot became free within {self._request_timeout_ms} ms"
        return [*self._withdraw(request_id), SlotRequestRejected(request_id=request_id, reason=reason)]

    def _check_batch_requests(self, now: int) -> list[SlotPoolEffect]:
        effects: list[SlotPoolEffect] = []
        for request_id, pending in [each for each in self._pending.items() if each[1].is_batch]:
            if self._for_anybody.has_slot_for(pending.resources):
                pending.unfulfillable_since_ms = None
            elif pending.unfulfillable_since_ms is None:
                pending.unfulfillable_since_ms = now
            elif now - pending.unfulfillable_since_ms >= self._request_timeout_ms:
                effects += self._on_timed_out(request_id)
        return effects

    def _on_allocation_failed(self, event: SlotRequestFailed | FailSlot) -> list[SlotPoolEffect]:
        allocation_id, reason = event.allocation_id, event.reason
        request_id = self._asked.get(allocation_id)
        if request_id is not None:
            is_unfulfillable = isinstance(event, SlotRequestFailed) and event.is_unfulfillable
            if self._pending[request_id].is_batch and not is_unfulfillable:
                return [Ignore(reason=f"{request_id} waits for slots that the job has")]
            # The request is withdrawn anyway, because the failure may be a late reply.
            rejection = SlotRequestRejected(request_id=request_id, reason=reason, is_temporary=not is_unfulfillable)
            return [*self._withdraw(request_id), rejection]
        slot = self._slots.get(allocation_id)
        if slot is None:
            return [Ignore(reason=f"{allocation_id} is neither held nor requested")]
        effects: list[SlotPoolEffect] = [self._remove(slot, reason), _free_at_task_manager(slot)]
        if not self._slots_of[slot.task_manager]:
            effects.append(ReleaseEmptyTaskManager(task_manager=slot.task_manager, reason=reason))
        return effects

    def _withdraw(self, request_id: SlotRequestId) -> list[SlotPoolEffect]:
        pending = self._pending.pop(request_id)
        del self._asked[pending.allocation_id]
        withdrawal = CancelSlotRequest(allocation_id=pending.allocation_id)
        return [*_cancel_timer(request_id, pending), *self._send_to_resource_manager(withdrawal)]

    # Slots

    def _on_offer_slots(self, event: OfferSlots, now: int) -> list[SlotPoolEffect]:
        task_manager = event.task_manager_id
        if task_manager not in self._slots_of:
            return [Ignore(reason=f"{task_manager} is not connected")]
        answers = [(offer.allocation_id, self._accept(task_manager, offer, now)) for offer in event.offers]
        accepted = tuple(allocation_id for allocation_id, effects in answers if effects is not None)
        # The TaskManager gets the acceptance of a slot before the slot's first task.
        answer = AcceptSlots(job_id=self._job_id, accepted=accepted, offer=event.offer)
        return [Tell(to=task_manager, message=answer), *(effect for _, effects in answers for effect in effects or ())]

    def _accept(self, task_manager: TaskManagerId, offer: SlotOffer, now: int) -> list[SlotPoolEffect] | None:
        if self._is_closed:
            return None
        known_slot = self._slots.get(offer.allocation_id)
        if known_slot is not None:
            return [] if (known_slot.slot_id, known_slot.task_manager) == (offer.slot_id, task_manager) else None
        outdated = self._at.get(offer.slot_id)
        removals = [] if outdated is None else [self._remove(outdated, "its TaskManager has allocated the slot again")]
        slot = _PooledSlot(
            allocation_id=offer.allocation_id,
            slot_id=offer.slot_id,
            task_manager=task_manager,
            size=offer.resources,
            free_since_ms=now,
        )
        self._slots[slot.allocation_id] = self._at[slot.slot_id] = self._free[slot.allocation_id] = slot
        self._slots_of[task_manager][slot.slot_id] = slot
        self._for_anybody.add_slot(task_manager, slot.slot_id, slot.size)
        request_id = self._asked.pop(offer.allocation_id, None)
        if request_id is None:
            return [*removals, *self._assign_to_waiting(slot)]
        pending = self._pending.pop(request_id)
        return [*removals, *_cancel_timer(request_id, pending), self._assign(slot, request_id)]

    def _release(self, slot: _PooledSlot) -> list[SlotPoolEffect]:
        self._for_anybody.release(slot.task_manager, slot.slot_id)
        return self._assign_to_waiting(slot)

    def _assign_to_waiting(self, slot: _PooledSlot) -> list[SlotPoolEffect]:
        request_id = next((each for each, pending in self._pending.items() if fits(pending.resources, slot.size)), None)
        if request_id is None:
            return []
        return [*self._withdraw(request_id), self._assign(slot, request_id)]

    def _assign(self, slot: _PooledSlot, request_id: SlotRequestId) -> SlotAssigned:
        if not slot.is_kept:
            self._for_anybody.occupy(slot.task_manager, slot.slot_id)
        del self._free[slot.allocation_id]
        slot.request_id, slot.is_kept = request_id, False
        self._assigned[request_id] = slot
        assigned = AssignedSlot(
            allocation_id=slot.allocation_id,
            task_manager_id=slot.task_manager,
            task_manager=self._task_managers[slot.task_manager],
            size=slot.size,
        )
        return SlotAssigned(request_id=request_id, slot=assigned)

    def _remove(self, slot: _PooledSlot, reason: str) -> SlotRemoved:
        del self._slots[slot.allocation_id]
        del self._at[slot.slot_id]
        del self._slots_of[slot.task_manager][slot.slot_id]
        self._for_anybody.remove_slot(slot.task_manager, slot.slot_id)
        held_by, task_manager = slot.request_id, slot.task_manager
        if held_by is None:
            del self._free[slot.allocation_id]
        else:
            del self._assigned[held_by]
        return SlotRemoved(
            allocation_id=slot.allocation_id, task_manager=task_manager, reason=reason, request_id=held_by
        )

    def _on_task_manager_lost(self, task_manager: TaskManagerId, reason: str) -> list[SlotPoolEffect]:
        if task_manager not in self._slots_of:
            return [Ignore(reason=f"{task_manager} is not connected")]
        removed = [self._remove(slot, reason) for slot in tuple(self._slots_of[task_manager].values())]
        del self._slots_of[task_manager]
        del self._task_managers[task_manager]
        self._for_anybody.forget(task_manager)
        return [*removed]

    def _release_idle_slots(self, now: int) -> list[SlotPoolEffect]:
        idle = [slot for slot in self._free.values() if now - slot.free_since_ms >= self._idle_timeout_ms]
        removed = [self._remove(slot, "it was idle") for slot in idle]
        return [*removed, *(_free_at_task_manager(slot) for slot in idle)]

    def _on_closed(self) -> list[SlotPoolEffect]:
        self._is_closed = True
        effects = [effect for request_id in tuple(self._pending) for effect in self._withdraw(request_id)]
        for slot in tuple(self._slots.values()):
            self._remove(slot, "the job has ended")
            effects.append(_free_at_task_manager(slot))
        return effects


def _free_at_task_manager(slot: _PooledSlot) -> Tell[TaskManagerId]:
    return Tell(to=slot.task_manager, message=FreeSlot(allocation_id=slot.allocation_id))


def _cancel_timer(request_id: SlotRequestId, pending: _Pending) -> list[CancelTimer]:
    return [] if pending.is_batch else [CancelTimer(key=_request_timer(request_id))]


def _request_timer(request_id: SlotRequestId) -> str:
    return f"slot-request/{request_id}"
