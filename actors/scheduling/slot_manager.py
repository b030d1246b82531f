"""Which slot serves which request, and which TaskManager has to be started: the ResourceManager's mind.

Mirrors Flink's SlotManager. A slot is FREE, PENDING (given to a request; its TaskManager has not answered) or
ALLOCATED. What a TaskManager reports is the truth: a request whose slot turns out to be taken moves to another one, and
an allocation that was not known is adopted. Requests are served in the order in which they came.

Not here: who the TaskManagers and JobMasters are (the shell holds their refs) and whether they still breathe.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.slot_manager_events import (
    AcceptTaskManager,
    AllocationConfirmed,
    AllocationRefused,
    FailAllocation,
    GiveSlot,
    JobGone,
    RefuseTaskManager,
    ResourceManagerStarted,
    SlotFreed,
    SlotManagerEffect,
    SlotManagerEvent,
    SlotRequestCancelled,
    SlotRequested,
    SlotsReported,
    TaskManagerGone,
    TaskManagerRegistered,
)
from flykka.actors.scheduling.slot_matching import LeastUtilized
from flykka.actors.scheduling.task_manager_tracker import TaskManagerTracker
from flykka.messages.ids import AllocationId, JobId, SlotId, TaskManagerId
from flykka.messages.registration import SlotReport


class SlotState(Enum):
    """Where a slot stands for the ResourceManager."""

    FREE = "FREE"
    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"


@dataclass(slots=True, kw_only=True)
class _Slot:
    slot_id: SlotId
    task_manager: TaskManagerId
    state: SlotState = SlotState.FREE
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    """None where a refusal named an allocation that nobody here has asked for."""


@dataclass(slots=True, kw_only=True)
class _Request:
    job_id: JobId
    allocation_id: AllocationId
    slot: _Slot | None = None
    """The slot that is PENDING for it; None while it waits for one."""


class SlotManager:
    """The slots of all TaskManagers and the requests of all jobs."""

    def __init__(self, *, task_managers: int) -> None:
        self._tracker = TaskManagerTracker(task_managers)
        self._slots: dict[SlotId, _Slot] = {}
        self._slots_of: dict[TaskManagerId, list[_Slot]] = {}
        self._free = LeastUtilized()
        self._allocated: dict[AllocationId, _Slot] = {}
        self._requests: dict[AllocationId, _Request] = {}
        self._waiting: OrderedDict[AllocationId, _Request] = OrderedDict()

    def handle(self, event: SlotManagerEvent, now: int) -> list[SlotManagerEffect]:
        """Take one event; what is to be done about it, in order."""
        match event:
            case ResourceManagerStarted():
                return [*self._tracker.start_missing()]
            case TaskManagerRegistered():
                return self._on_registered(event)
            case SlotsReported():
                return self._on_reported(event)
            case TaskManagerGone():
                return self._on_task_manager_gone(event)
            case SlotRequested():
                return self._on_requested(event)
            case SlotRequestCancelled(allocation_id=allocation_id):
                return self._on_request_cancelled(allocation_id)
            case AllocationConfirmed():
                return self._on_confirmed(event)
            case AllocationRefused():
                return self._on_refused(event)
            case SlotFreed():
                return self._on_freed(event)
            case JobGone(job_id=job_id):
                return self._on_job_gone(job_id)
            case _:
                assert_never(event)

    @property
    def slot_states(self) -> dict[SlotId, SlotState]:
        """Where every known slot stands."""
        return {slot.slot_id: slot.state for slot in self._slots.values()}

    @property
    def waiting_requests(self) -> tuple[AllocationId, ...]:
        """The requests without a slot, the next one first."""
        return tuple(self._waiting)

    def check(self) -> None:
        """Assert the invariants."""
        self._tracker.check()
        self._free.check()
        for slot in self._slots.values():
            is_free = slot.state is SlotState.FREE
            assert is_free == (slot.allocation_id is None), f"{slot} is free and held"
            assert is_free == self._free.is_free(slot.task_manager, slot.slot_id), f"{slot} is offered while it is held"
            if slot.state is SlotState.ALLOCATED:
                assert slot.allocation_id is not None
                assert self._allocated.get(slot.allocation_id) is slot, f"{slot} is not found by its allocation"
        assert all(slot.state is SlotState.ALLOCATED for slot in self._allocated.values())
        assert not self._allocated.keys() & self._requests.keys(), "an allocation is had and still asked for"
        for allocation_id, request in self._requests.items():
            assert (request.slot is None) == (allocation_id in self._waiting), f"{request} waits and has a slot"
            if request.slot is not None:
                assert (request.slot.state, request.slot.allocation_id) == (SlotState.PENDING, allocation_id)

    # TaskManagers

    def _on_registered(self, event: TaskManagerRegistered) -> list[SlotManagerEffect]:
        task_manager = event.task_manager
        if self._tracker.is_gone(task_manager):
            return [RefuseTaskManager(task_manager=task_manager, reason=f"{task_manager} was given up and replaced")]
        if task_manager not in self._slots_of:
            self._tracker.register(task_manager)
            self._free.register(task_manager)
            self._slots_of[task_manager] = []
        self._adopt(task_manager, event.report)
        return [AcceptTaskManager(task_manager=task_manager), *self._serve()]

    def _on_reported(self, event: SlotsReported) -> list[SlotManagerEffect]:
        if event.task_manager not in self._slots_of:
            return [Ignore(reason=f"{event.task_manager} is not registered")]
        self._adopt(event.task_manager, event.report)
        return self._serve()

    def _on_task_manager_gone(self, event: TaskManagerGone) -> list[SlotManagerEffect]:
        task_manager, reason = event.task_manager, event.reason
        if not self._tracker.knows(task_manager):
            return [Ignore(reason=f"{task_manager} is not known")]
        effects: list[SlotManagerEffect] = []
        for slot in reversed(self._slots_of.pop(task_manager, [])):
            del self._slots[slot.slot_id]
            if slot.state is SlotState.PENDING:
                self._wait_again(slot)
            elif slot.state is SlotState.ALLOCATED:
                effects = self._fail_allocation(slot, reason) + effects
        if self._tracker.is_registered(task_manager):
            self._free.forget(task_manager)
        return [*effects, *self._tracker.give_up(task_manager), *self._serve()]

    def _fail_allocation(self, slot: _Slot, reason: str) -> list[SlotManagerEffect]:
        assert slot.allocation_id is not None
        del self._allocated[slot.allocation_id]
        if slot.job_id is None:
            return []
        return [FailAllocation(job_id=slot.job_id, allocation_id=slot.allocation_id, reason=reason)]

    def _adopt(self, task_manager: TaskManagerId, report: SlotReport) -> None:
        """Take what the TaskManager says for the truth."""
        for status in report.slots:
            slot = self._slots.get(status.slot_id) or self._add_slot(task_manager, status.slot_id)
            if status.allocation_id is not None:
                self._allocate(slot, status.allocation_id, status.job_id)
            elif slot.state is SlotState.ALLOCATED:
                self._release(slot)
            # A PENDING slot that is reported free was so when the report left; its answer is on its way.

    def _add_slot(self, task_manager: TaskManagerId, slot_id: SlotId) -> _Slot:
        slot = _Slot(slot_id=slot_id, task_manager=task_manager)
        self._slots[slot_id] = slot
        self._slots_of[task_manager].append(slot)
        self._free.add_slot(task_manager, slot_id)
        return slot

    # Requests

    def _on_requested(self, event: SlotRequested) -> list[SlotManagerEffect]:
        allocation_id = event.allocation_id
        if allocation_id in self._requests or allocation_id in self._allocated:
            return [Ignore(reason=f"{allocation_id} was asked for before")]
        request = _Request(job_id=event.job_id, allocation_id=allocation_id)
        self._requests[allocation_id] = request
        self._waiting[allocation_id] = request
        return self._serve()

    def _on_request_cancelled(self, allocation_id: AllocationId) -> list[SlotManagerEffect]:
        if allocation_id not in self._requests:
            return [Ignore(reason=f"{allocation_id} is not asked for")]
        self._drop_request(allocation_id)
        return self._serve()

    def _on_job_gone(self, job_id: JobId) -> list[SlotManagerEffect]:
        for request in [request for request in self._requests.values() if request.job_id == job_id]:
            self._drop_request(request.allocation_id)
        return self._serve()

    def _drop_request(self, allocation_id: AllocationId) -> None:
        request = self._requests.pop(allocation_id)
        self._waiting.pop(allocation_id, None)
        if request.slot is not None:
            self._release(request.slot)

    # Answers of TaskManagers

    def _on_confirmed(self, event: AllocationConfirmed) -> list[SlotManagerEffect]:
        slot = self._slots.get(event.slot_id)
        if slot is None:
            return [Ignore(reason=f"{event.slot_id} is not known")]
        self._allocate(slot, event.allocation_id, event.job_id)
        return self._serve()

    def _on_refused(self, event: AllocationRefused) -> list[SlotManagerEffect]:
        slot = self._slots.get(event.slot_id)
        if slot is None or slot.state is not SlotState.PENDING or slot.allocation_id != event.allocation_id:
            return [Ignore(reason=f"{event.slot_id} was not waiting for an answer about {event.allocation_id}")]
        if event.occupied_by is not None:
            holder = self._requests.get(event.occupied_by)
            self._allocate(slot, event.occupied_by, holder.job_id if holder is not None else None)
            return self._serve()
        # The others are tried first: the slot that was just refused must not be the next choice.
        self._wait_again(slot)
        effects = self._serve()
        self._release(slot)
        return effects

    def _on_freed(self, event: SlotFreed) -> list[SlotManagerEffect]:
        slot = self._slots.get(event.slot_id)
        if slot is None or slot.state is not SlotState.ALLOCATED or slot.allocation_id != event.allocation_id:
            return [Ignore(reason=f"{event.slot_id} is not held by {event.allocation_id}")]
        self._release(slot)
        return self._serve()

    # Slots

    def _serve(self) -> list[SlotManagerEffect]:
        """Give free slots to waiting requests for as long as there are both."""
        effects: list[SlotManagerEffect] = []
        while self._waiting and (slot_id := self._free.next()) is not None:
            allocation_id, request = self._waiting.popitem(last=False)
            slot = self._slots[slot_id]
            self._free.occupy(slot.task_manager, slot_id)
            slot.state, slot.allocation_id, slot.job_id = SlotState.PENDING, allocation_id, request.job_id
            request.slot = slot
            effects.append(
                GiveSlot(
                    task_manager=slot.task_manager,
                    slot_id=slot_id,
                    job_id=request.job_id,
                    allocation_id=allocation_id,
                )
            )
        return effects

    def _allocate(self, slot: _Slot, allocation_id: AllocationId, job_id: JobId | None) -> None:
        """The slot is held by the allocation, whatever was believed before."""
        if slot.state is SlotState.ALLOCATED and slot.allocation_id == allocation_id:
            return
        if slot.state is SlotState.FREE:
            self._free.occupy(slot.task_manager, slot.slot_id)
        elif slot.state is SlotState.ALLOCATED:
            assert slot.allocation_id is not None
            del self._allocated[slot.allocation_id]
        elif slot.allocation_id != allocation_id:
            self._wait_again(slot)
        request = self._requests.pop(allocation_id, None)
        self._waiting.pop(allocation_id, None)
        elsewhere = request.slot if request is not None else self._allocated.get(allocation_id)
        if elsewhere is not None and elsewhere is not slot:
            self._release(elsewhere)
        slot.state, slot.allocation_id, slot.job_id = SlotState.ALLOCATED, allocation_id, job_id
        self._allocated[allocation_id] = slot

    def _release(self, slot: _Slot) -> None:
        """The slot is free."""
        if slot.state is SlotState.ALLOCATED:
            assert slot.allocation_id is not None
            del self._allocated[slot.allocation_id]
        slot.state, slot.allocation_id, slot.job_id = SlotState.FREE, None, None
        self._free.release(slot.task_manager, slot.slot_id)

    def _wait_again(self, slot: _Slot) -> None:
        """The request that this slot was given to waits for another one, before all that came later."""
        assert slot.allocation_id is not None
        request = self._requests[slot.allocation_id]
        request.slot = None
        self._waiting[request.allocation_id] = request
        self._waiting.move_to_end(request.allocation_id, last=False)
