"""The machine of the ResourceManager: which slot serves which request, which TaskManagers are started.

Mirrors Flink's SlotManager. A slot is FREE, PENDING (given to a request; its TaskManager has not answered) or
ALLOCATED. What a TaskManager reports is the truth: a request whose slot turns out to be taken moves to another one, and
an allocation that was not known is adopted. Requests are served in the order in which they came, by slots that are
large enough. One that no slot serves makes another TaskManager start, where there may be more (`task_manager_tracker`),
and fails when it has waited for too long.

Not here: who the TaskManagers and JobMasters are (the shell holds their refs) and whether they still breathe.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.slots.pending_slot_requests import PendingSlotRequests, SlotRequest
from flykka.actors.machines.slots.slot_manager_events import (
    AcceptTaskManager,
    AllocationConfirmed,
    AllocationRefused,
    AskWhetherReleasable,
    FailAllocation,
    GiveSlot,
    JobGone,
    LetTaskManagerGo,
    RefuseTaskManager,
    ResourceManagerStarted,
    SlotFreed,
    SlotManagerEffect,
    SlotManagerEvent,
    SlotRequestCancelled,
    SlotRequested,
    SlotsReported,
    TaskManagerAnswered,
    TaskManagerGone,
    TaskManagerRegistered,
    TimeoutCheckDue,
    UnfulfillableRequestsRefused,
)
from flykka.actors.machines.slots.task_manager_slots import SlotState, TaskManagerSlot, TaskManagerSlots
from flykka.actors.machines.slots.task_manager_tracker import TaskManagerTracker, Workers
from flykka.messages.control.registration import SlotReport
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId

REQUEST_TIMEOUT_MS = 300_000
"""Flink's slot.request.timeout, which the SlotPool of the job keeps as well."""
ALLOCATE_TIMEOUT_MS = 10_000
"""Milliseconds that a TaskManager may take to answer (Flink's akka.ask.timeout)."""


class SlotManager:
    """The slots of all TaskManagers and the requests of all jobs."""

    def __init__(self, workers: Workers, *, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        self._tracker = TaskManagerTracker(workers)
        self._request_timeout_ms = request_timeout_ms
        self._refuses_unfulfillable = False
        self._now = 0
        self._slots = TaskManagerSlots()
        self._allocated: dict[AllocationId, TaskManagerSlot] = {}
        self._requests: dict[AllocationId, SlotRequest] = {}
        self._waiting = PendingSlotRequests()

    def handle(self, event: SlotManagerEvent, now: int) -> list[SlotManagerEffect]:
        """Take one event at `now` (ms); what is to be done about it, in order."""
        self._now = now
        match event:
            case ResourceManagerStarted(task_managers=task_managers):
                self._tracker.take_over(task_managers)
                return [*self._tracker.start_missing()]
            case TaskManagerRegistered():
                return self._on_registered(event)
            case SlotsReported():
                return self._on_reported(event)
            case TaskManagerGone():
                return self._on_task_manager_gone(event)
            case TaskManagerAnswered():
                return self._on_answered(event)
            case TimeoutCheckDue():
                return self._on_timeout_check()
            case UnfulfillableRequestsRefused(is_on=is_on):
                self._refuses_unfulfillable = is_on
                return self._fail_unfulfillable()
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
        """The state of every known slot."""
        return {slot.slot_id: slot.state for slot in self._slots}

    @property
    def task_managers(self) -> tuple[TaskManagerId, ...]:
        """The registered TaskManagers."""
        return self._slots.task_managers

    @property
    def waiting_requests(self) -> tuple[AllocationId, ...]:
        """The requests without a slot, the next one first."""
        return tuple(request.allocation_id for request in self._waiting)

    @property
    def allocations(self) -> dict[SlotId, AllocationId | None]:
        """The allocation that holds every known slot, or that it is PENDING for."""
        return {slot.slot_id: slot.allocation_id for slot in self._slots}

    @property
    def requests(self) -> tuple[AllocationId, ...]:
        """The requests that are not fulfilled, with a slot that is PENDING or without."""
        return tuple(self._requests)

    @property
    def expected_slots(self) -> int:
        """The slots of TaskManagers that are on their way."""
        return self._tracker.expected_slots

    def is_idle(self, task_manager: TaskManagerId) -> bool:
        """True if it is registered and none of its slots is used."""
        return self._tracker.is_idle(task_manager)

    def check(self) -> None:
        """Assert the invariants."""
        self._tracker.check()
        self._slots.check()
        for slot in self._slots:
            if slot.state is SlotState.ALLOCATED:
                assert slot.allocation_id is not None
                assert self._allocated.get(slot.allocation_id) is slot, f"{slot} is not found by its allocation"
        assert all(slot.state is SlotState.ALLOCATED for slot in self._allocated.values())
        assert not self._allocated.keys() & self._requests.keys(), "an allocation is had and still asked for"
        for allocation_id, request in self._requests.items():
            assert (request.slot_id is None) == (request in self._waiting), f"{request} waits and has a slot"
            if request.slot_id is not None:
                slot = self._slots[request.slot_id]
                assert (slot.state, slot.allocation_id) == (SlotState.PENDING, allocation_id)

    # TaskManagers

    def _on_registered(self, event: TaskManagerRegistered) -> list[SlotManagerEffect]:
        task_manager = event.task_manager
        if self._tracker.is_gone(task_manager, event.instance):
            return [RefuseTaskManager(task_manager=task_manager, reason=f"{task_manager} was given up and replaced")]
        if not self._tracker.is_registered(task_manager):
            is_foreign = not self._tracker.knows(task_manager)
            self._tracker.register(task_manager, event.instance)
            if is_foreign:
                self._take_for_expected(event.report)
            self._slots.register(task_manager)
        self._adopt(task_manager, event.report)
        self._note_use(task_manager)
        return [AcceptTaskManager(task_manager=task_manager), *self._serve()]

    def _on_reported(self, event: SlotsReported) -> list[SlotManagerEffect]:
        if not self._tracker.is_registered(event.task_manager):
            return [Ignore(reason=f"{event.task_manager} is not registered")]
        self._adopt(event.task_manager, event.report)
        return self._serve()

    def _on_task_manager_gone(self, event: TaskManagerGone) -> list[SlotManagerEffect]:
        task_manager, reason = event.task_manager, event.reason
        if not self._tracker.knows(task_manager):
            return [Ignore(reason=f"{task_manager} is not known")]
        effects: list[SlotManagerEffect] = []
        for slot in reversed(self._slots.remove(task_manager)):
            if slot.state is SlotState.PENDING:
                self._wait_again(slot)
            elif slot.state is SlotState.ALLOCATED:
                effects = self._fail_allocation(slot, reason) + effects
        if event.is_superseded:
            self._tracker.leave(task_manager)
            return [*effects, *self._serve()]
        started = self._tracker.give_up(task_manager, event.instance)
        return [*effects, *started, *self._fail_hopeless(reason), *self._serve()]

    def _take_for_expected(self, report: SlotReport) -> None:
        for status in report.slots:
            if status.allocation_id is None:
                self._tracker.fulfil_expectation(status.resources)

    def _fail_allocation(self, slot: TaskManagerSlot, reason: str) -> list[SlotManagerEffect]:
        assert slot.allocation_id is not None
        del self._allocated[slot.allocation_id]
        if slot.job_id is None:
            return []
        return [FailAllocation(job_id=slot.job_id, allocation_id=slot.allocation_id, reason=reason)]

    def _adopt(self, task_manager: TaskManagerId, report: SlotReport) -> None:
        """Take what the TaskManager says for the truth."""
        for status in report.slots:
            slot = self._slots.get(status.slot_id) or self._slots.add(task_manager, status)
            if status.allocation_id is not None:
                self._allocate(slot, status.allocation_id, status.job_id)
            elif slot.state is SlotState.ALLOCATED:
                self._release(slot)
            # A PENDING slot that is reported free was so when the report left; its answer is on its way.

    def _note_use(self, task_manager: TaskManagerId) -> None:
        self._tracker.note_use(task_manager, self._now, is_unused=self._slots.is_unused(task_manager))

    # TaskManagers that are too many

    def _on_timeout_check(self) -> list[SlotManagerEffect]:
        effects: list[SlotManagerEffect] = []
        for request in tuple(self._requests.values()):
            if self._now - request.since_ms >= self._request_timeout_ms:
                effects.append(self._fail_request(request, f"no slot was free within {self._request_timeout_ms} ms"))
            elif request.slot_id is not None and self._now - request.given_at_ms >= ALLOCATE_TIMEOUT_MS:
                effects += self._try_elsewhere(self._slots[request.slot_id])
        effects += [
            AskWhetherReleasable(task_manager=task_manager, idle_period=idle_period)
            for task_manager, idle_period in self._tracker.idle_for_too_long(self._now)
        ]
        return [*effects, *self._serve()]

    def _on_answered(self, event: TaskManagerAnswered) -> list[SlotManagerEffect]:
        task_manager = event.task_manager
        if not event.can_be_released or not self._tracker.may_release(task_manager, event.idle_period):
            return [Ignore(reason=f"{task_manager} is needed")]
        self._slots.remove(task_manager)
        self._tracker.forget_released(task_manager)
        return [LetTaskManagerGo(task_manager=task_manager)]

    # Requests

    def _on_requested(self, event: SlotRequested) -> list[SlotManagerEffect]:
        allocation_id = event.allocation_id
        if allocation_id in self._requests or allocation_id in self._allocated:
            return [Ignore(reason=f"{allocation_id} was asked for before")]
        request = SlotRequest(
            job_id=event.job_id, allocation_id=allocation_id, resources=event.resources, since_ms=self._now
        )
        self._requests[allocation_id] = request
        self._waiting.add(request)
        return [*self._fail_unfulfillable(), *self._serve()]

    def _fail_unfulfillable(self) -> list[SlotManagerEffect]:
        """Of the requests that wait, those that no slot will ever be large enough for."""
        if not self._refuses_unfulfillable:
            return []
        hopeless = [request for request in self._waiting if not self._is_fulfillable(request.resources)]
        reason = "no slot is large enough, nor will be one of a TaskManager that can be started"
        return [self._fail_request(request, reason, is_unfulfillable=True) for request in hopeless]

    def _is_fulfillable(self, required: ResourceSpec) -> bool:
        return self._slots.has_slot_for(required) or self._tracker.could_bring(required)

    def _fail_hopeless(self, reason: str) -> list[SlotManagerEffect]:
        """Nobody is to wait for a TaskManager where one after the other fails to start."""
        if not self._tracker.keeps_failing:
            return []
        why = f"no TaskManager can be started: {reason}"
        return [self._fail_request(request, why) for request in tuple(self._waiting)]

    def _fail_request(self, request: SlotRequest, reason: str, *, is_unfulfillable: bool = False) -> FailAllocation:
        self._drop_request(request.allocation_id)
        return FailAllocation(
            job_id=request.job_id,
            allocation_id=request.allocation_id,
            reason=reason,
            is_unfulfillable=is_unfulfillable,
        )

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
        self._waiting.discard(request)
        if request.slot_id is not None:
            self._release(self._slots[request.slot_id])

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
        return self._try_elsewhere(slot)

    def _try_elsewhere(self, slot: TaskManagerSlot) -> list[SlotManagerEffect]:
        """The request that the slot was given to has not got it: it tries the others, and others try this one."""
        assert slot.allocation_id is not None
        request = self._requests[slot.allocation_id]
        self._wait_again(slot)
        effects = self._serve()
        self._release(slot)
        if request not in self._waiting:
            return [*effects, *self._serve()]
        self._waiting.discard(request)
        effects += self._serve()
        self._waiting.add_first(request)
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
        while (served := self._waiting.next(self._slots.choose)) is not None:
            request, slot_id = served
            self._waiting.discard(request)
            slot = self._slots[slot_id]
            self._slots.hold(slot, SlotState.PENDING, request.allocation_id, request.job_id)
            self._note_use(slot.task_manager)
            request.slot_id, request.given_at_ms = slot_id, self._now
            effects.append(
                GiveSlot(
                    task_manager=slot.task_manager,
                    slot_id=slot_id,
                    job_id=request.job_id,
                    allocation_id=request.allocation_id,
                )
            )
        return [*effects, *self._tracker.start_for(len(self._waiting))]

    def _allocate(self, slot: TaskManagerSlot, allocation_id: AllocationId, job_id: JobId | None) -> None:
        """The slot is held by the allocation, whatever was believed before."""
        if slot.state is SlotState.ALLOCATED and slot.allocation_id == allocation_id:
            return
        if slot.state is SlotState.ALLOCATED:
            assert slot.allocation_id is not None
            del self._allocated[slot.allocation_id]
        elif slot.state is SlotState.PENDING and slot.allocation_id != allocation_id:
            self._wait_again(slot)
        request = self._requests.pop(allocation_id, None)
        elsewhere = self._allocated.get(allocation_id)
        if request is not None:
            self._waiting.discard(request)
            elsewhere = self._slots[request.slot_id] if request.slot_id is not None else None
        if elsewhere is not None and elsewhere is not slot:
            self._release(elsewhere)
        self._slots.hold(slot, SlotState.ALLOCATED, allocation_id, job_id)
        self._allocated[allocation_id] = slot
        self._note_use(slot.task_manager)

    def _release(self, slot: TaskManagerSlot) -> None:
        """The slot is free."""
        if slot.state is SlotState.ALLOCATED:
            assert slot.allocation_id is not None
            del self._allocated[slot.allocation_id]
        self._slots.release(slot)
        self._note_use(slot.task_manager)

    def _wait_again(self, slot: TaskManagerSlot) -> None:
        """The request that this slot was given to waits for another one, before all that came later."""
        assert slot.allocation_id is not None
        request = self._requests[slot.allocation_id]
        request.slot_id = None
        self._waiting.add_first(request)
