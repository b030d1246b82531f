"""The slots that a job holds, and its requests for more (Flink's SlotPool).

A free slot of the pool is used before the ResourceManager is asked, so that a job which restarts gets its slots back at
once. An offered slot serves the request it was asked for, else the one that has waited longest, whose own allocation is
then withdrawn, and else stays here as a spare. A slot that nobody has needed for a while goes back.

Not here: which attempts share a slot (`slot_sharing`), and how anybody is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.slot_pool_events import (
    AllocationFailed,
    AnswerOffers,
    AskForSlot,
    CancelRequestTimer,
    FreeAtTaskManager,
    IdleCheckDue,
    PoolClosed,
    RequestTimedOut,
    ResourceManagerConnected,
    ResourceManagerDisconnected,
    SlotAssigned,
    SlotLost,
    SlotPoolEffect,
    SlotPoolEvent,
    SlotRequestRejected,
    SlotReturned,
    SlotsOffered,
    SlotWanted,
    StartRequestTimer,
    TaskManagerConnected,
    TaskManagerDisconnected,
    WithdrawRequest,
)
from flykka.actors.scheduling.slot_sharing import SlotRequestId
from flykka.messages.ids import AllocationId, SlotId, TaskManagerId
from flykka.messages.slots import SlotOffer

REQUEST_TIMEOUT_MS = 300_000
"""Flink's slot.request.timeout."""
IDLE_TIMEOUT_MS = 50_000
"""Flink's slot.idle.timeout."""


@dataclass(slots=True, kw_only=True)
class _PooledSlot:
    """A slot the job holds: for a request, or free since `free_since_ms`."""

    allocation_id: AllocationId
    slot_id: SlotId
    task_manager: TaskManagerId
    request_id: SlotRequestId | None = None
    free_since_ms: int = 0


class SlotPool:
    """The slots of one job."""

    def __init__(self, *, request_timeout_ms: int = REQUEST_TIMEOUT_MS, idle_timeout_ms: int = IDLE_TIMEOUT_MS) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._idle_timeout_ms = idle_timeout_ms
        self._resource_manager_connected = False
        self._is_closed = False
        # Dicts for their order: the longest waiting request and the longest free slot come first.
        self._pending: dict[SlotRequestId, AllocationId] = {}
        self._asked: dict[AllocationId, SlotRequestId] = {}
        self._slots: dict[AllocationId, _PooledSlot] = {}
        self._slots_of: dict[TaskManagerId, dict[AllocationId, None]] = {}
        self._free: dict[AllocationId, _PooledSlot] = {}
        self._assigned: dict[SlotRequestId, _PooledSlot] = {}

    def handle(self, event: SlotPoolEvent, now: int) -> list[SlotPoolEffect]:
        """Take one event at `now` (ms); what is to be done about it, in order."""
        match event:
            case SlotsOffered():
                return self._on_offered(event, now)
            case TaskManagerDisconnected():
                return self._on_task_manager_disconnected(event)
            case _ if self._is_closed:
                return [Ignore(reason="the job has ended")]
            case SlotWanted():
                return self._on_wanted(event)
            case SlotReturned(request_id=request_id):
                return self._on_returned(request_id, now)
            case ResourceManagerConnected():
                self._resource_manager_connected = True
                return [AskForSlot(allocation_id=allocation_id) for allocation_id in self._asked]
            case ResourceManagerDisconnected():
                self._resource_manager_connected = False
                return []
            case TaskManagerConnected(task_manager=task_manager):
                self._slots_of.setdefault(task_manager, {})
                return []
            case AllocationFailed():
                return self._on_allocation_failed(event)
            case RequestTimedOut(request_id=request_id):
                return self._on_timed_out(request_id)
            case IdleCheckDue():
                return self._on_idle_check(now)
            case PoolClosed():
                return self._on_closed()
            case _:
                assert_never(event)

    @property
    def free_slots(self) -> tuple[AllocationId, ...]:
        """What could serve the next requests."""
        return tuple(self._free)

    @property
    def pending_requests(self) -> tuple[SlotRequestId, ...]:
        """Who waits, the longest waiting first."""
        return tuple(self._pending)

    def holds(self, allocation_id: AllocationId) -> bool:
        """Whether the slot of this allocation is the job's, used or free."""
        return allocation_id in self._slots

    def slots_of(self, task_manager: TaskManagerId) -> tuple[AllocationId, ...]:
        """The slots that the job holds on a TaskManager, used or free."""
        return tuple(self._slots_of.get(task_manager, ()))

    def check(self) -> None:
        """Assert the invariants."""
        assert {request: allocation for allocation, request in self._asked.items()} == self._pending
        assert not (self._pending and self._free), "a request waits beside a free slot"
        assert not self._pending.keys() & self._assigned.keys(), "a request waits for a slot and has one"
        for allocation_id, slot in self._slots.items():
            assert (allocation_id in self._free) == (slot.request_id is None)
            assert slot.request_id is None or self._assigned[slot.request_id] is slot
            assert allocation_id in self._slots_of[slot.task_manager]
        assert len(self._free) + len(self._assigned) == len(self._slots)
        assert sum(len(slots) for slots in self._slots_of.values()) == len(self._slots)

    # Requests

    def _on_wanted(self, event: SlotWanted) -> list[SlotPoolEffect]:
        request_id, allocation_id = event.request_id, event.allocation_id
        if request_id in self._pending or request_id in self._assigned:
            return [Ignore(reason=f"{request_id} was made before")]
        if self._free:
            return [self._assign(self._free.pop(next(iter(self._free))), request_id)]
        self._pending[request_id] = allocation_id
        self._asked[allocation_id] = request_id
        timer = StartRequestTimer(request_id=request_id, delay_ms=self._request_timeout_ms)
        return [timer, AskForSlot(allocation_id=allocation_id)] if self._resource_manager_connected else [timer]

    def _on_returned(self, request_id: SlotRequestId, now: int) -> list[SlotPoolEffect]:
        if request_id in self._pending:
            return [CancelRequestTimer(request_id=request_id), *self._withdraw(request_id)]
        slot = self._assigned.pop(request_id, None)
        return self._put_to_use(slot, now) if slot else [Ignore(reason=f"{request_id} has no slot")]

    def _on_timed_out(self, request_id: SlotRequestId) -> list[SlotPoolEffect]:
        if request_id not in self._pending:
            return [Ignore(reason=f"{request_id} does not wait")]
        reason = f"no slot became free within {self._request_timeout_ms} ms"
        return [*self._withdraw(request_id), SlotRequestRejected(request_id=request_id, reason=reason)]

    def _on_allocation_failed(self, event: AllocationFailed) -> list[SlotPoolEffect]:
        request_id = self._asked.pop(event.allocation_id, None)
        if request_id is not None:
            del self._pending[request_id]
            rejection = SlotRequestRejected(request_id=request_id, reason=event.reason)
            return [CancelRequestTimer(request_id=request_id), rejection]
        slot = self._slots.get(event.allocation_id)
        if slot is None:
            return [Ignore(reason=f"{event.allocation_id} is neither held nor asked for")]
        return [*self._lose(slot, event.reason), _free_at_task_manager(slot)]

    def _withdraw(self, request_id: SlotRequestId) -> list[SlotPoolEffect]:
        allocation_id = self._pending.pop(request_id)
        del self._asked[allocation_id]
        return [WithdrawRequest(allocation_id=allocation_id)] if self._resource_manager_connected else []

    # Slots

    def _on_offered(self, event: SlotsOffered, now: int) -> list[SlotPoolEffect]:
        if event.task_manager not in self._slots_of:
            return [Ignore(reason=f"{event.task_manager} is not connected")]
        answers = [(offer.allocation_id, self._take(event.task_manager, offer, now)) for offer in event.offers]
        accepted = tuple(allocation_id for allocation_id, effects in answers if effects is not None)
        # The TaskManager hears that a slot is taken before the first task for it arrives.
        answer = AnswerOffers(task_manager=event.task_manager, accepted=accepted)
        return [answer, *(effect for _, effects in answers for effect in effects or ())]

    def _take(self, task_manager: TaskManagerId, offer: SlotOffer, now: int) -> list[SlotPoolEffect] | None:
        """What follows from taking the offered slot; None where it is not taken."""
        if self._is_closed:
            return None
        held = self._slots.get(offer.allocation_id)
        if held is not None:
            return [] if (held.slot_id, held.task_manager) == (offer.slot_id, task_manager) else None
        slot = _PooledSlot(allocation_id=offer.allocation_id, slot_id=offer.slot_id, task_manager=task_manager)
        self._slots[slot.allocation_id] = slot
        self._slots_of[task_manager][slot.allocation_id] = None
        request_id = self._asked.pop(offer.allocation_id, None)
        if request_id is None:
            return self._put_to_use(slot, now)
        del self._pending[request_id]
        return [CancelRequestTimer(request_id=request_id), self._assign(slot, request_id)]

    def _put_to_use(self, slot: _PooledSlot, now: int) -> list[SlotPoolEffect]:
        """Give the slot to the request that has waited longest, or keep it."""
        request_id = next(iter(self._pending), None)
        if request_id is None:
            slot.request_id, slot.free_since_ms = None, now
            self._free[slot.allocation_id] = slot
            return []
        withdrawal = self._withdraw(request_id)
        return [CancelRequestTimer(request_id=request_id), *withdrawal, self._assign(slot, request_id)]

    def _assign(self, slot: _PooledSlot, request_id: SlotRequestId) -> SlotAssigned:
        slot.request_id = request_id
        self._assigned[request_id] = slot
        return SlotAssigned(
            request_id=request_id,
            allocation_id=slot.allocation_id,
            slot_id=slot.slot_id,
            task_manager=slot.task_manager,
        )

    def _lose(self, slot: _PooledSlot, reason: str) -> list[SlotPoolEffect]:
        """The slot is no longer held."""
        del self._slots[slot.allocation_id]
        del self._slots_of[slot.task_manager][slot.allocation_id]
        if slot.request_id is None:
            del self._free[slot.allocation_id]
            return []
        del self._assigned[slot.request_id]
        return [
            SlotLost(
                request_id=slot.request_id,
                allocation_id=slot.allocation_id,
                task_manager=slot.task_manager,
                reason=reason,
            )
        ]

    def _on_task_manager_disconnected(self, event: TaskManagerDisconnected) -> list[SlotPoolEffect]:
        if event.task_manager not in self._slots_of:
            return [Ignore(reason=f"{event.task_manager} is not connected")]
        lost = [self._slots[allocation_id] for allocation_id in self._slots_of[event.task_manager]]
        effects = [effect for slot in lost for effect in self._lose(slot, event.reason)]
        del self._slots_of[event.task_manager]
        return effects

    def _on_idle_check(self, now: int) -> list[SlotPoolEffect]:
        idle = [slot for slot in self._free.values() if now - slot.free_since_ms >= self._idle_timeout_ms]
        for slot in idle:
            self._lose(slot, "nobody needed it")
        return [_free_at_task_manager(slot) for slot in idle]

    def _on_closed(self) -> list[SlotPoolEffect]:
        self._is_closed = True
        effects: list[SlotPoolEffect] = []
        for request_id in tuple(self._pending):
            effects += [CancelRequestTimer(request_id=request_id), *self._withdraw(request_id)]
        for slot in tuple(self._slots.values()):
            self._lose(slot, "the job has ended")
            effects.append(_free_at_task_manager(slot))
        return effects


def _free_at_task_manager(slot: _PooledSlot) -> FreeAtTaskManager:
    return FreeAtTaskManager(task_manager=slot.task_manager, allocation_id=slot.allocation_id)
